"""Another project's environment in the comparison: the adapter, its training and evaluation, and the report."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import gymnasium as gym
import pytest

from dev.peers import arena_env, foreign
from dev.peers.__main__ import ROWS, SideFigure, as_json, as_text, main
from dev.peers.foreign import Evaluated, ForeignOutcome
from dev.peers.foreign_run import guess, outcome
from dev.peers.sides import Unavailable
from mage_envs import Prompt
from tests.trainer.foreign import register

OUTCOME = ForeignOutcome(
    updates=2,
    changed=True,
    played=8,
    failed=1,
    evaluated=(Evaluated("a script", 8, 0, (0.5, 1.0)), Evaluated("a model", 8, 8, ())),
)


def test_the_adapter_plays_textarenas_game():
    pytest.importorskip("textarena", reason="TextArena is no dependency: `make peers` installs it and plays this")
    env = arena_env.ArenaEnv()
    first_text, info = env.reset(seed=3)
    assert "between 1 and 20" in first_text
    assert info == {}
    assert env.reset(seed=3)[0] == first_text
    _, reward, over, _, info = env.step("five")
    assert (reward, over, info["invalid_reason"]) == (0.0, False, "invalid")
    outcomes = {}
    for number in range(1, 21):
        env.reset(seed=3)
        text, reward, over, truncated, info = env.step(f"[{number}]")
        outcomes[number] = (reward, over, truncated, info.get("success"), "higher" in text, "lower" in text)
    [secret] = [number for number, (reward, *_) in outcomes.items() if reward == 1]
    assert outcomes[secret] == (1.0, True, False, True, False, False)
    for number in range(1, 21):
        if number != secret:
            assert outcomes[number] == (0.0, False, False, None, number < secret, number > secret)
    env.reset(seed=3)
    env.step("five")
    assert env.step("six")[1:3] == (0.0, True)


def test_textarenas_game_is_a_meta_episode():
    pytest.importorskip("textarena", reason="TextArena is no dependency: `make peers` installs it and plays this")
    env = gym.make(arena_env.ID)
    text, info = env.reset(seed=3)
    assert "secret number" in text
    assert info["phase"] == "play"


def test_the_script_guesses_every_number():
    prompts = [
        Prompt(messages=(), slot=0, seed=(5, 1, turn, 0), legal_actions=(), phase="play", previous=None, info={})
        for turn in range(20)
    ]
    assert {guess(prompt) for prompt in prompts} == {f"<action>[{number}]</action>" for number in range(1, 21)}


def test_an_environment_that_is_not_ours_is_trained_on_and_evaluated(tmp_path: Path):
    register()

    def answer(prompt: Prompt) -> str:
        return guess(prompt, 5).replace("[", "").replace("]", "")

    foreign_outcome = outcome("foreign/Guess-Meta-v0", answer, tmp_path, "tests.trainer.foreign")
    assert (foreign_outcome.updates, foreign_outcome.changed, foreign_outcome.played, foreign_outcome.failed) == (
        2,
        True,
        8,
        0,
    )
    script, model = foreign_outcome.evaluated
    assert (script.played, script.failed, len(script.returns)) == (8, 0, 3)
    assert max(script.returns) > 0
    assert (model.played, model.failed, len(model.returns)) == (8, 0, 3)
    assert ForeignOutcome.from_json(json.loads(json.dumps(asdict(foreign_outcome)))) == foreign_outcome


def test_a_python_without_the_peer_is_a_reason(tmp_path: Path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'no such thing' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(Unavailable, match="its process ended: no such thing"):
        foreign.play(broken, 60)
    broken.write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(Unavailable, match=r"no answer within 0\.2 s"):
        foreign.play(broken, 0.2)


def test_the_report_contains_the_outcome():
    text = as_text([], [], {}, OUTCOME, load=0.5)
    assert text.startswith("## A foreign environment\n\nTextArena 0.7.4's GuessTheNumber-v0 through the adapter ")
    assert "2 updates of the tiny model on 8 meta-episodes (1 failed), by which its weights changed." in text
    assert text.splitlines()[-2:] == ["| a script | 8 | 0 | 0.50, 1.00 |", "| a model | 8 | 8 | n/a |"]
    assert as_text([], [], {}, "no answer within 3 s", 0.5).endswith("GuessTheNumber-v0: n/a, no answer within 3 s.\n")
    assert "did not change" in ForeignOutcome(updates=0, changed=False, played=0, failed=0, evaluated=()).table("It")
    report = json.loads(as_json([], {}, OUTCOME, 0.5))
    assert report["load"] == 0.5
    assert ForeignOutcome.from_json(report["foreign"]) == OUTCOME
    assert json.loads(as_json([], {}, "late", 0.5))["foreign"] == {"missing": "late"}
    assert "foreign" not in json.loads(as_json([], {}, "", 0.5))


def test_the_command_says_why_there_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    arguments = [
        "--peers",
        "textarena",
        "--rows",
        "foreign",
        "--cache",
        str(tmp_path),
        "--save",
        str(tmp_path / "kept"),
    ]
    assert main(arguments) == 0
    output = capsys.readouterr().out
    assert "GuessTheNumber-v0: n/a, its installation failed: ERROR: " in output
    assert (tmp_path / "kept" / "peers.md").read_text() == f"# Beside other projects\n\n{output}"


def test_a_loaded_machine_gives_ratios_alone():
    kuhn = [row for row in ROWS if row.key == "kuhn"]
    figures = [SideFigure("kuhn", "MAGE Envs", 300.0, 9), SideFigure("kuhn", "A", 100.0, 77)]
    line = "| Kuhn Poker, steps | per second |"
    assert f"{line}  | A | (77 done) | 3 |" in as_text(kuhn, figures, {}, "", load=1000.0)
    assert "load average 1000.0" in as_text(kuhn, figures, {}, "", load=1000.0)
    assert f"{line} 300 | A | 100 (77 done) | 3 |" in as_text(kuhn, figures, {}, "", load=0.0)
