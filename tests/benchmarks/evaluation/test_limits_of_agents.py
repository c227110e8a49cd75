"""Reply limits of an `llm:` agent by game, and the options that a panel refuses because it fixes them."""

from __future__ import annotations

import json

import pytest

from mage_envs.benchmarks import make_agent
from mage_envs.benchmarks.evaluation.suites.paper import setting_for
from mage_envs.benchmarks.records.about import about_run, agent_of
from mage_envs.cli.program import main
from mage_envs.registry import make_game
from mage_envs.trainer.config.presets import reply_limit

LLM = "llm:m@http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("game", "limit"),
    [
        *(("TicTacToe", 3072), ("KuhnPoker", 4096), ("Sokoban", 4096), ("WebShop", 1024), ("ALFWorld", 1024)),
        ("PrisonersDilemma", 4096),
    ],
)
def test_the_limit_is_that_of_the_games_presets(game, limit):
    assert reply_limit(game) == limit
    assert make_agent(LLM).request(game) == {"temperature": 1.0, "max_tokens": limit}
    assert make_agent(f"{LLM},max_tokens=7").request(game)["max_tokens"] == 7
    assert "max_tokens" not in make_agent(f"{LLM},max_completion_tokens=9").request(game)
    sampled = make_agent(LLM, {"temperature": 0.5, "top_p": 0.8}).request(game)
    assert sampled == {"temperature": 0.5, "top_p": 0.8, "max_tokens": limit}
    assert make_agent(f"{LLM},seed=off").request(game)["seed"] is False


def test_the_record_holds_limits_and_sampling_and_a_worker_compares_them():
    agent = make_agent(LLM, {"temperature": 0.5})
    agent_record = json.loads(json.dumps(about_run(agent, setting_for("kuhn-paper-128"))["agent"]))
    assert agent_record["request"] == {"temperature": 0.5, "max_tokens": 4096}
    assert (agent_record["name"], agent_record["model"]) == ("llm:m", "m")
    assert agent_record["served"] == {"listed": None, "replied": None}
    assert agent_of(LLM, agent_record, "KuhnPoker").name == "llm:m"
    with pytest.raises(RuntimeError, match="another model"):
        agent_of(LLM, agent_record, "TicTacToe")


def test_games_of_one_agent_share_its_budget():
    agent = make_agent(f"{LLM},max_calls=3")
    first_generator, second_generator = (agent.generator(make_game(name)) for name in ("KuhnPoker", "TicTacToe"))
    assert first_generator is not second_generator
    assert first_generator.budget is second_generator.budget


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--panel", "kuhn-paper-128", "--game-option", "seat=first"], "fixes the seats, so seat='first'"),
        (["--panel", "kuhn-paper-128", "--game-option", "opponent=kuhn/nash"], "Use --opponents with --env"),
        (
            ["--env", "mage/KuhnPoker-Meta-v0", "--opponents", "kuhn/nash", "--game-option", "opponent=uniform"],
            "Use --opponents with --env",
        ),
    ],
)
def test_what_a_panel_fixes_is_refused(words, message, capsys):
    assert main(["eval", "scripted:first", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_seat_beside_opponents_of_ones_own_is_obeyed(capsys):
    words = ["--env", "mage/KuhnPoker-Meta-v0", "--opponents", "kuhn/nash", "--rows", "2"]
    assert main(["eval", "scripted:first", *words, "--game-option", "seat=first", "--format", "tsv"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert {row[6] for row in rows[1:] if row[2] == "success"} == {"2"}, "two rows of one seat"
