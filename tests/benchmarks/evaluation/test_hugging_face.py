"""`hf:MODEL`: a model in a folder without `mage.json` as an agent, with the limits of the game's presets."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.hugging_face import HuggingFaceAgent
from mage_envs.benchmarks.records.about import agent_of, identity_of
from mage_envs.cli.program import main
from mage_envs.registry import make_game
from mage_envs.text.generation import Message, Prompt
from mage_envs.trainer.backends.tiny import general_tiny

KUHN = ["--env", "mage/KuhnPoker-Meta-v0", "--episodes", "1", "--rows", "1", "--opponents", "kuhn/rock"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A byte-level model with 32,768 positions, without `mage.json`."""
    return general_tiny(tmp_path_factory.mktemp("hf") / "model")


def agent(spec: str, **sampling: float) -> HuggingFaceAgent:
    hf_agent = make_agent(spec, sampling)
    assert isinstance(hf_agent, HuggingFaceAgent)
    return hf_agent


def test_the_date_of_the_prompts_is_part_of_the_request(folder: str, tmp_path: Path) -> None:
    dated_folder = tmp_path / "dated"
    shutil.copytree(folder, dated_folder)
    assert "date" not in agent(f"hf:{dated_folder}").request("KuhnPoker")
    path = dated_folder / "chat_template.jinja"
    path.write_text("{{ strftime_now('%d %b %Y') }}" + path.read_text())
    assert agent(f"hf:{dated_folder}").request("KuhnPoker")["date"] == "2026-01-01"
    assert agent(f"hf:{dated_folder},date=2024-02-29").request("KuhnPoker")["date"] == "2024-02-29"
    with pytest.raises(ValueError, match="date='today' must be a day in the form YYYY-MM-DD"):
        agent(f"hf:{dated_folder},date=today")
    game, prompt = make_game("KuhnPoker"), Prompt((Message("user", "bet?"),), seed=(1, 0, 0, 0))
    generator: Any = agent(f"hf:{dated_folder},date=2024-02-29,max_tokens=2").generator(game)
    assert "29 Feb 2024" in generator.tokens.tokenizer.decode(list(generator.generate([prompt])[0].prompt_ids))


@pytest.mark.parametrize(
    ("game", "prompt", "reply"),
    [("KuhnPoker", 4096, 4096), ("TicTacToe", 4096, 3072), ("WebShop", 8192, 1024), ("RockPaperScissors", 4096, 4096)],
)
def test_the_presets_of_the_game_limit_prompts_and_replies(folder: str, game: str, prompt: int, reply: int) -> None:
    limits: dict[str, Any] = {"max_tokens": reply, "max_prompt_tokens": prompt, "temperature": 1.0}
    request = agent(f"hf:{folder}").request(game)
    limits["reply_format"] = request["reply_format"]
    assert request == limits
    assert (limits["reply_format"]["end_ids"], limits["reply_format"]["thought_end"]) == ([256], "</think>")
    expected = limits | {
        "max_tokens": 7,
        "temperature": 0.7,
        "top_k": 20,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    assert agent(f"hf:{folder},max_tokens=7,thinking=off", temperature=0.7, top_k=20).request(game) == expected
    stopping = agent(f"hf:{folder},max_tokens=7,stop=on", temperature=0.7, top_k=20)
    del expected["chat_template_kwargs"]
    assert stopping.request(game) == expected | {"stop": True}
    generator: Any = stopping.generator(make_game("KuhnPoker"))
    assert generator.sampling.stops_at_answer


def test_a_reply_takes_its_positions_from_the_prompt(folder: str) -> None:
    assert agent(f"hf:{folder},max_tokens=32000").request("KuhnPoker")["max_prompt_tokens"] == 768
    with pytest.raises(ValueError, match="leave no room for a prompt in the model's 32768 positions. Set a lower"):
        agent(f"hf:{folder},max_tokens=32768").request("KuhnPoker")


def test_the_template_gets_the_thinking_of_the_name(folder: str) -> None:
    game, prompt = make_game("KuhnPoker"), Prompt((Message("user", "bet?"),), seed=(1, 0, 0, 0))
    replies = {}
    for spec in ("", ",thinking=on", ",thinking=off"):
        [replies[spec]] = agent(f"hf:{folder},max_tokens=3{spec}").generator(game).generate([prompt])
    # The tiny template closes an empty thought before the reply if thinking is off.
    longer = len(replies[",thinking=off"].prompt_ids) - len(replies[""].prompt_ids)
    assert longer == len("<think>\n\n</think>\n\n")
    assert replies[",thinking=on"] == replies[""]
    assert len(replies[""].ids) <= 3


def test_a_folder_plays_a_panel_and_its_run_is_executed_again(folder: str, tmp_path: Path) -> None:
    out, name = tmp_path / "run", f"hf:{folder},max_tokens=2"
    assert main(["eval", name, "--panel", "kuhn-paper-16", "--episodes", "1", "--out", str(out)]) == 0
    run = json.loads((out / "run.json").read_text())
    assert run["replies"] == "played in batches of any lengths, with a cache"
    assert run["replies"] in (out / "report.html").read_text()
    about = run["agent"]
    assert about["name"] == name
    facts = about["request"].pop("reply_format")
    assert about["request"] == {"max_tokens": 2, "max_prompt_tokens": 4096, "temperature": 1.0}
    assert (facts["end_ids"], facts["opens_thought"]) == ([256], False)
    assert main(["verify", str(out)]) == 0
    assert main(["verify", "--replay", str(out)]) == 0


def test_a_worker_rebuilds_the_agent_only_from_the_same_weights(folder: str, tmp_path: Path) -> None:
    model_copy = tmp_path / "model"
    shutil.copytree(folder, model_copy)
    identity = identity_of(agent(f"hf:{model_copy},max_tokens=2", temperature=0.5), "KuhnPoker")
    rebuilt = agent_of(identity["name"], identity, "KuhnPoker")
    assert isinstance(rebuilt, HuggingFaceAgent)
    limits = {"max_tokens": 2, "max_prompt_tokens": 4096, "temperature": 0.5}
    assert rebuilt.request("KuhnPoker").items() >= limits.items()
    shutil.rmtree(model_copy)
    general_tiny(model_copy, seed=1)
    with pytest.raises(RuntimeError, match="On the worker, hf:.* is another model"):
        agent_of(identity["name"], identity, "KuhnPoker")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("hf:{folder},max_token=4", "there is no option 'max_token'. Did you mean 'max_tokens'?"),
        ("hf:{folder},max_tokens=0", "max_tokens=0 must be at least 1."),
        ("hf:{folder},max_tokens=x", "max_tokens"),
        ("hf:no-such-model", "no-such-model is neither a folder nor a model that the hub or its cache returns"),
        ("hf:not/a/name", "not/a/name is neither a folder nor a model"),
        ("hf:{empty}", "has no config.json. Use the folder of a saved model."),
        ("hf", "Unknown agent 'hf': expected a folder or one of the forms"),
    ],
)
def test_a_mistake_is_one_line(
    spec: str, says: str, folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", spec.format(folder=folder, empty=tmp_path), *KUHN]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert says in line


def test_a_model_without_settings_needs_a_game(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", f"hf:{folder}"]) == 2
    assert "Nothing to play. Use --env" in capsys.readouterr().err


def test_a_trained_model_without_the_prefix_still_needs_its_settings(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", folder, *KUHN]) == 2
    assert f"hf:{folder}" in capsys.readouterr().err
