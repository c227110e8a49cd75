"""`mage-bench regret`: agents of all kinds are judged by what they played, or by their own probabilities."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.evaluation.agents import GeneratorAgent, make_agent
from benchmarks.evaluation.suites import panel, weights_of
from benchmarks.exact.regret import regret
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.text.generation import Completion, Prompt
from opponents.exact import bayes_value
from tests.trainer.tiny_runs import save_model
from trainer.saved import PlaySettings

META = "mage/KuhnPoker-Meta-v0"
DEMO = weights_of("pool:kuhn/demo")


def test_the_solved_policy_has_no_regret() -> None:
    found = regret(make_agent("policy:myopic:kuhn/demo,3,1"), panel(META, tuple(DEMO), 20, 7), DEMO, batch=64)
    assert found.meta_episodes == 160
    assert not found.probabilities
    exact = bayes_value(KuhnPoker(), "pool:kuhn/demo", credit="myopic").per_episode
    for one, value in zip(found.episodes, exact, strict=True):
        assert one.regret.mean == pytest.approx(0, abs=1e-12)
        assert one.adjusted.mean == pytest.approx(one.available)
        assert one.available == pytest.approx(value, abs=0.02)
    assert found.episodes[0].available == pytest.approx(exact[0], abs=1e-12)
    assert all(state.regret.mean == pytest.approx(0, abs=1e-12) for state in found.states)
    assert (found.episodes[2].narrower or 0) > 4


def test_regret_of_an_episode_is_that_of_its_states() -> None:
    tasks = panel(META, tuple(DEMO), 10, 8)
    by_rule = regret(make_agent("policy:uniform"), tasks, DEMO)
    as_played = regret(make_agent("policy:uniform"), tasks, DEMO, scored=False)
    assert by_rule.probabilities
    assert not as_played.probabilities
    for found in (by_rule, as_played):
        for k, one in enumerate(found.episodes):
            total = sum(state.regret.mean for state in found.states if state.episode == k)
            assert total == pytest.approx(one.regret.mean, abs=1e-12)
            assert one.adjusted.mean == pytest.approx(one.available - one.regret.mean, abs=1e-12)
            assert one.value.mean == pytest.approx(as_played.episodes[k].value.mean, abs=1e-12)
    assert all(state.actions == dict.fromkeys(state.actions, 0.5) for state in by_rule.states)


class Sure:
    """Answers the first legal action, and says that it would have taken the second in one case of four."""

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        return [Completion(f"<action>{p.legal_actions[0] if p.legal_actions else ''}</action>") for p in prompts]

    def score(self, prompts: Sequence[Prompt], replies: Sequence[Sequence[str]]) -> list[list[float]]:
        assert all(text.startswith("<action>") for row in replies for text in row)
        return [[float(np.log(0.75)), float(np.log(0.25))] for _ in replies]


def test_a_model_that_tells_its_probabilities_is_judged_by_them() -> None:
    found = regret(GeneratorAgent(Sure(), "sure"), panel(META, tuple(DEMO), 4, 9), DEMO, {"memory": "history"})
    assert found.probabilities
    assert all(sorted(state.actions.values()) == pytest.approx([0.25, 0.75]) for state in found.states)


def test_a_saved_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model")
    PlaySettings(META, {"style": "words"}, 1, 1.0, constrained=True).save(folder)
    out = tmp_path / "regret.json"
    assert main(["regret", str(folder), "--pool", "kuhn/demo", "--rows", "2", "--json", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "16 meta-episodes, judged by its own probabilities" in lines[0]
    assert [line.split()[0] for line in lines[3:6]] == ["1", "2", "3"]
    data = json.loads(out.read_text())
    assert len(data["episodes"]) == 3
    assert all(state["regret"]["mean"] >= -1e-12 for state in data["states"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["policy:uniform"], "Say what to play: --env mage/KuhnPoker-Meta-v0"),
        (["policy:uniform", "--env", "mage/Sokoban-Meta-v0"], "Sokoban has no tree with opponents at hand"),
        (["policy:uniform", "--env", "mage/ConnectFour-Meta-v0"], "ConnectFour has no tree with opponents at hand"),
        (["policy:uniform", "--env", "mage/TicTacToe-Meta-v0"], "'mcts:100' has no distribution(turn)"),
        (["policy:uniform", "--panel", "kuhn-trian"], "Did you mean 'kuhn-train'?"),
        (["policy:uniform", "--panel", "kuhn-train", "--env", "mage/TicTacToe-Meta-v0"], "is played in mage/KuhnPoker"),
        (["policy:uniform", "--env", META, "--pool", "kuhn/dem"], "Did you mean 'kuhn/demo'?"),
        (["policy:uniform", "--env", META, "--rows", "0"], "--rows and --batch must be at least 1."),
        (["polcy:uniform", "--env", META], "Unknown agent 'polcy:uniform'"),
    ],
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["regret", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
