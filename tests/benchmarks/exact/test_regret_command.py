"""`mage regret`: agents of all kinds are judged by their moves, or by their own probabilities."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mage_envs.benchmarks.evaluation.run.agents import GeneratorAgent, make_agent
from mage_envs.benchmarks.evaluation.suites.panels import panel, weights_of
from mage_envs.benchmarks.exact.regret import Horizon, regret, regret_of_run
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.cli.program import main
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.opponents.exact import bayes_value
from mage_envs.opponents.exact.bayes import CreditName
from mage_envs.registry import make_game
from mage_envs.text.generation import Completion, Prompt
from mage_envs.trainer.backends.play_settings import PlaySettings
from tests.trainer.tiny_runs import save_model

META = "mage/KuhnPoker-Meta-v0"
PD = "mage/PrisonersDilemma-Meta-v0"
DEMO = weights_of("pool:kuhn/demo")


def test_the_solved_policy_has_no_regret() -> None:
    report = regret(make_agent("policy:myopic:kuhn/demo,3,1"), panel(META, tuple(DEMO), 20, 7), DEMO, batch=64)
    assert report.meta_episodes == 160
    assert not report.probabilities
    exact = bayes_value(KuhnPoker(), "pool:kuhn/demo", credit="myopic").per_episode
    for episode, value in zip(report.episodes, exact, strict=True):
        assert episode.regret.mean == pytest.approx(0, abs=1e-12)
        assert episode.adjusted.mean == pytest.approx(episode.available)
        assert episode.available == pytest.approx(value, abs=0.02)
    assert report.episodes[0].available == pytest.approx(exact[0], abs=1e-12)
    assert all(state.regret.mean == pytest.approx(0, abs=1e-12) for state in report.states)
    assert (report.episodes[2].narrower or 0) > 4


def test_opponents_that_change_are_judged_as_they_play_in_each_episode(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    switch, folder = "switch:kuhn/rock,kuhn/maniac,1", str(tmp_path / "run")
    common = ["--env", META, "--rows", "40", "--opponents"]
    agent = f"policy:best-response-to:{switch}"
    assert main(["eval", agent, *common, f"{switch};", "--out", folder, "--no-baselines"]) == 0
    capsys.readouterr()
    assert main(["regret", folder, "--json"]) == 0
    episodes = json.loads(capsys.readouterr().out)["episodes"]
    assert [episode["regret"]["mean"] for episode in episodes] == pytest.approx([0, 0, 0], abs=1e-12)
    assert [episode["available"] for episode in episodes] == pytest.approx([1 / 4, 1 / 3, 1 / 3])
    with_memory = str(tmp_path / "memory")
    assert main(["eval", "scripted:first", *common, "counting", "--out", with_memory, "--no-baselines"]) == 0
    capsys.readouterr()
    assert main(["regret", with_memory]) == 2
    error = capsys.readouterr().err
    assert "Opponent 'counting' remembers earlier hands" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("credit", ["sum", "last"])
def test_the_solved_policy_has_no_regret_over_the_meta_episode(credit: CreditName) -> None:
    tasks, solved = panel(META, tuple(DEMO), 4, 7), make_agent(f"policy:bayes:kuhn/demo,3,1,{credit}")
    report = regret(solved, tasks, DEMO, horizon=Horizon(credit))
    assert all(episode.regret.mean == pytest.approx(0, abs=1e-12) for episode in report.episodes)
    exact = bayes_value(KuhnPoker(), "pool:kuhn/demo", credit=credit).per_episode
    assert report.whole is not None
    assert report.whole.available == pytest.approx(exact[-1] if credit == "last" else sum(exact), abs=1e-12)
    assert report.whole.narrower is None, "the adjusted score is that very value"
    assert report.credit == credit
    myopic_report = regret(make_agent("policy:myopic:kuhn/demo,3,1"), tasks, DEMO, horizon=Horizon(credit))
    assert myopic_report.whole is not None
    assert myopic_report.whole.regret.mean > 0.001, "it does not explore"
    total = sum(episode.regret.mean for episode in myopic_report.episodes)
    assert total == pytest.approx(myopic_report.whole.regret.mean, abs=1e-12)


@pytest.mark.slow
def test_ten_thousand_meta_episodes_earn_the_myopic_value_less_the_regret() -> None:
    """Opponents that look at nothing show everybody the same, and each of them is met with each choice that suits it:
    any player earns the myopic value less its regret in every episode, one that remembers nothing 0."""
    game, pool = make_game("RockPaperScissors", rounds=1), weights_of("pool:rps/biased")
    tasks, options = panel("mage/RockPaperScissors-Meta-v0", tuple(pool), 3334, 11), {"rounds": 1, "memory": "none"}
    report = regret(make_agent("policy:rps/rock:.6"), tasks, pool, options)
    assert report.meta_episodes == 10_002
    myopic = bayes_value(game, "pool:rps/biased", credit="myopic").per_episode
    for episode, value in zip(report.episodes, myopic, strict=True):
        for score in (episode.value, episode.adjusted):
            half = (score.high - score.low) / 2 + 1e-12
            assert abs(score.mean) < half
            assert abs(score.mean + episode.regret.mean - value) < half
    assert all((episode.narrower or 0) > 10 for episode in report.episodes[1:])


def test_regret_of_an_episode_is_that_of_its_states() -> None:
    tasks = panel(META, tuple(DEMO), 10, 8)
    by_rule = regret(make_agent("policy:uniform"), tasks, DEMO)
    as_played = regret(make_agent("policy:uniform"), tasks, DEMO, scored=False)
    assert by_rule.probabilities
    assert not as_played.probabilities
    for report in (by_rule, as_played):
        for k, episode in enumerate(report.episodes):
            total = sum(state.regret.mean for state in report.states if state.episode == k)
            assert total == pytest.approx(episode.regret.mean, abs=1e-12)
            assert episode.adjusted.mean == pytest.approx(episode.available - episode.regret.mean, abs=1e-12)
            assert episode.value.mean == pytest.approx(as_played.episodes[k].value.mean, abs=1e-12)
    assert all(state.actions == dict.fromkeys(state.actions, 0.5) for state in by_rule.states)


class Sure:
    """Answers the first legal action, and says that it would have taken the second in one case of four."""

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        return [Completion(f"<action>{p.legal_actions[0] if p.legal_actions else ''}</action>") for p in prompts]

    def score(self, prompts: Sequence[Prompt], replies: Sequence[Sequence[str]]) -> list[list[float]]:
        assert all(text.startswith("<action>") for row in replies for text in row)
        return [[float(np.log(0.75)), float(np.log(0.25))] for _ in replies]


def test_a_model_with_probabilities_is_judged_by_them() -> None:
    report = regret(GeneratorAgent(Sure(), "sure"), panel(META, tuple(DEMO), 4, 9), DEMO, {"memory": "history"})
    assert report.probabilities
    assert all(sorted(state.actions.values()) == pytest.approx([0.25, 0.75]) for state in report.states)


def test_deals_that_come_again_are_judged_where_nothing_can_be_known_of_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In one episode alone, and in a game of one deal."""
    arguments = ["regret", "policy:uniform", "--rows", "1"]
    assert main([*arguments, "--env", META, "--game-option", "protocol=paper", "--game-option", "num_episodes=1"]) == 0
    assert main([*arguments, "--env", PD, "--game-option", "deal=replay"]) == 0
    assert "nan" not in capsys.readouterr().out


@pytest.mark.parametrize("context", ["rebuilt", "conversation"])
def test_a_saved_model(capsys: pytest.CaptureFixture[str], tmp_path: Path, context: str) -> None:
    folder = save_model(tmp_path / "model")
    options = {"style": "words", "context": context, "memory": "history"}
    PlaySettings(META, options, 1, 1.0, constrained=True).save(folder)
    words = ["regret", str(folder), "--opponents", "pool:kuhn/demo", "--rows", "2"]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "16 meta-episodes, judged by its own probabilities" in lines[0]
    assert [line.split()[0] for line in lines[3:6]] == ["1", "2", "3"]
    assert main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert len(data["episodes"]) == 3
    assert all(state["regret"]["mean"] >= -1e-12 for state in data["states"])


@pytest.fixture(scope="module")
def random_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on a named panel."""
    folder = tmp_path_factory.mktemp("kept") / "run"
    assert main(["eval", "scripted:random", "--panel", "kuhn-train-128", "--out", str(folder)]) == 0
    return folder


def test_a_kept_run_is_judged_as_what_plays_it(random_run: Path) -> None:
    """Its replies are executed again, which gives the same figures as judging the play itself."""
    from mage_envs.benchmarks.evaluation.suites.panels import named_panel

    records = Records(random_run)
    progress: list[int] = []
    report = regret_of_run(records, batch=50, on_step=lambda num_done, _: progress.append(num_done))
    train_panel = named_panel("kuhn-train-128")
    fresh = regret(
        make_agent("scripted:random"), train_panel.tasks(), train_panel.weights(), train_panel.env_kwargs, scored=False
    )
    assert report == fresh
    assert progress[-1] == records.planned == report.meta_episodes


def test_a_kept_run_that_comes_out_otherwise_is_not_judged(random_run: Path) -> None:
    records = Records(random_run)
    call = records.lines[3]["calls"][0]
    call["messages"][-1]["content"] = "Another prompt."
    with pytest.raises(ValueError, match=r"run has another outcome with this version. See mage verify .* --replay"):
        regret_of_run(records)


def test_another_game_panel_or_pool_than_that_of_a_kept_run_is_one_line(
    random_run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sokoban_run = tmp_path / "sokoban"
    common = ["--env", "mage/Sokoban-Meta-v0", "--game-option", "num_episodes=1", "--rows", "1", "--no-baselines"]
    assert main(["eval", "scripted:first", *common, "--out", str(sokoban_run)]) == 0
    capsys.readouterr()
    for arguments, message in (
        (
            [str(random_run), "--panel", "kuhn-paper"],
            "was played on kuhn-train-128, not on kuhn-paper. Remove --panel.",
        ),
        ([str(random_run), "--panel", "kuhn-trian"], "Did you mean 'kuhn-train'?"),
        (
            [str(random_run), "--env", "mage/TicTacToe-Meta-v0"],
            "was played in mage/KuhnPoker-Meta-v0, not in mage/TicTacToe",
        ),
        (
            [str(random_run), "--game-option", "deal=fresh"],
            "fixes the options it was played with. Remove --game-option.",
        ),
        ([str(random_run), "--opponents", "pool:kuhn/paper"], "which is not in this pool. Use the run's own pool."),
        ([str(sokoban_run)], "is a run of Sokoban without opponents"),
    ):
        assert main(["regret", *arguments]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


def test_the_command_judges_a_kept_run(random_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["regret", str(random_run), "--panel", "kuhn-train-128", "--states", "1"]) == 0
    assert "scripted:random: chips per hand, 128 meta-episodes, judged by what it played" in capsys.readouterr().out
    assert main(["regret", str(random_run), "--horizon", "meta", "--credit", "mage", "--gt", "0.9"]) == 0
    assert "as mage, gt 0.9 counts it" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["policy:uniform", "--env", META, "--credit", "sum"], "--credit applies only to the rest of the meta-ep"),
        (["policy:uniform", "--env", META, "--horizon", "meta", "--gt", ".5"], "--gt is the discount of --credit mage"),
        (
            ["policy:uniform", "--env", META, "--game-option", "deal=replay", "--horizon", "meta"],
            "the deals of the first episode are replayed",
        ),
        (["policy:uniform", "--env", META, "--game-option", "deal=replay"], "Use protocol=adaptive or num_episodes=1."),
        (["policy:uniform", "--env", PD, "--game-option", "protocol=paper"], "or a success ends the meta-episode."),
        (["policy:uniform"], "Nothing to play. Use --env mage/KuhnPoker-Meta-v0"),
        (["policy:uniform", "--env", "mage/Sokoban-Meta-v0"], "Sokoban has no enumerable tree with opponents"),
        (["policy:uniform", "--env", "mage/ConnectFour-Meta-v0"], "ConnectFour has no enumerable tree with opponents"),
        (["policy:uniform", "--env", "mage/TicTacToe-Meta-v0"], "'mcts:100' has no distribution(turn)"),
        (["policy:uniform", "--panel", "kuhn-trian"], "Did you mean 'kuhn-train'?"),
        (["policy:uniform", "--panel", "kuhn-train", "--env", "mage/TicTacToe-Meta-v0"], "is played in mage/KuhnPoker"),
        (["policy:uniform", "--env", META, "--opponents", "pool:kuhn/dem"], "Did you mean 'kuhn/demo'?"),
        (["policy:uniform", "--env", META, "--rows", "0"], "Input should be greater than or equal to 1"),
        (["polcy:uniform", "--env", META], "Unknown agent 'polcy:uniform'"),
    ],
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["regret", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
