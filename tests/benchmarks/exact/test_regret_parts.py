"""`mage eval --elicit` and the parts of the regret that `mage regret` prints."""

from __future__ import annotations

import json

import pytest

from mage_envs.benchmarks.records.record_store import Records
from mage_envs.cli.game_options import as_flags
from mage_envs.cli.program import main
from tests.packages import mark_params

REVEALED = ["--game-option", "reveal_opponent=true"]
ENV = ["--env", "mage/PrisonersDilemma-Meta-v0", "--opponents", "pool:pd/classic", "--memory", "history"]


def run_eval(agent, folder, *options):
    return main(["eval", agent, *ENV, "--rows", "2", "--no-baselines", "--out", str(folder), *options])


def parts(folder, capsys):
    capsys.readouterr()
    assert main(["regret", str(folder), "--horizon", "meta", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["parts"]


def test_beliefs_are_recorded_replayed_and_scored(tmp_path, capsys):
    elicited_run, plain = tmp_path / "asked", tmp_path / "plain"
    assert run_eval("policy:blind:pd/classic", elicited_run, "--elicit") == 0
    assert run_eval("policy:blind:pd/classic", plain) == 0
    assert main(["verify", "--replay", str(elicited_run)]) == 0
    assert main(["verify", str(elicited_run)]) == 0
    elicited_calls, plain_calls = (
        [line["calls"] for _, line in sorted(Records(folder).lines.items())] for folder in (elicited_run, plain)
    )
    assert sum(call["kind"] == "belief" for calls in elicited_calls for call in calls) == 20

    def play_calls(calls):
        """The calls of play without the events, which hold the answer and lengths of the memory."""
        return [{k: v for k, v in call.items() if k != "memory_events"} for call in calls if call["kind"] == "play"]

    assert [play_calls(calls) for calls in elicited_calls] == [play_calls(calls) for calls in plain_calls]
    report = parts(elicited_run, capsys)
    assert (report["answers"], report["valid"]) == (20, 20)
    assert_sums(report)
    assert report["total"]["inference"]["mean"] == pytest.approx(0.08), "it reports the prior, whatever it saw"
    assert report["total"]["decision"]["mean"] == pytest.approx(0, abs=1e-9), "it plays best under what it reports"
    assert report["episodes"][0]["inference"]["mean"] == 0, "it was not asked yet"
    # Five equally likely opponents: .8 squared for the true one, and .2 squared for each of the others.
    assert report["total"]["brier"]["mean"] == pytest.approx(0.8)
    assert report["total"]["posterior_brier"]["mean"] < 0.7


def assert_sums(report):
    """The parts add up to the regret, in each episode and in all."""
    for column in (*report["episodes"], report["total"]):
        mean = {name: value["mean"] for name, value in column.items() if value is not None}
        split = mean["inference"] + mean["decision"] + mean["unsplit"] + mean["exploration"]
        assert split == pytest.approx(mean["regret"], abs=1e-12)


def test_without_answers_two_parts_are_one_figure(tmp_path, capsys):
    assert run_eval("policy:myopic:pd/classic,3,1", tmp_path / "run") == 0
    report = parts(tmp_path / "run", capsys)
    assert not report["elicited"]
    assert report["total"]["inference"]["mean"] == report["total"]["decision"]["mean"] == 0
    # Against the optimum for the sum, the myopic learner loses the gain that it does not learn to make.
    assert report["total"]["unsplit"]["mean"] == pytest.approx(0, abs=1e-9)
    assert report["total"]["exploration"]["mean"] > 0.1
    assert_sums(report)
    assert main(["regret", str(tmp_path / "run"), "--horizon", "meta"]) == 0
    text = capsys.readouterr().out
    assert "= inference + decision" in text
    assert "the agent was not asked for its belief (mage eval --elicit)" in text


GAMES = [
    pytest.param("Ultimatum", "ultimatum/reserves", {}, 1, id="ultimatum"),
    pytest.param("PrisonersDilemma", "pd/classic", {"rounds": 2, "noise": 0.1}, 1, id="dilemma"),
    pytest.param("KuhnPoker", "kuhn/paper", {"hands_per_episode": 3}, 3, id="kuhn"),
    pytest.param("Encounters", "encounters/all", {"games": ["chicken", "throw"], "num_episodes": 2}, 1, id="series"),
]


@pytest.mark.parametrize("question", mark_params(["--elicit", "--elicit-name"], step=2))
@pytest.mark.parametrize(("game", "pool", "options", "hands"), GAMES)
def test_every_part_of_the_best_learner_is_0(tmp_path, capsys, game, pool, options, hands, question):
    episodes = options.get("num_episodes", 3)
    agent, folder = f"policy:bayes:{pool},{episodes},{hands},sum", str(tmp_path / "run")
    command = ["eval", agent, "--env", f"mage/{game}-Meta-v0", "--opponents", f"pool:{pool}", "--memory", "history"]
    command += [*as_flags(options), "--rows", "1", "--no-baselines", "--out", folder, question]
    assert main(command) == 0
    report = parts(folder, capsys)
    assert report["valid"] == report["answers"] > 0
    assert report["is_name"] == (question == "--elicit-name")
    for column in (*report["episodes"], report["total"]):
        for name in ("regret", "inference", "exploration", "decision", "unsplit", "gap"):
            assert column[name]["mean"] == pytest.approx(0, abs=1e-7), name
    if question == "--elicit":
        # The belief that it reports is the posterior, so both have the same score.
        assert report["total"]["brier"] == pytest.approx(report["total"]["posterior_brier"])
    else:
        assert report["total"]["brier"] is None


def test_the_myopic_learner_lacks_exploration_alone(tmp_path, capsys):
    assert run_eval("policy:myopic:pd/classic,3,1", tmp_path / "run", "--elicit") == 0
    total = {name: value["mean"] for name, value in parts(tmp_path / "run", capsys)["total"].items()}
    assert total["exploration"] == pytest.approx(total["regret"])
    # Its acts are not the best ones under its belief, as it does not plan ahead.
    assert total["gap"] == pytest.approx(total["regret"])
    assert total["regret"] > 0.1


@pytest.mark.more
def test_a_name_costs_what_it_adds_to_that_of_the_most_likely_opponent(tmp_path, capsys):
    assert run_eval("policy:bayes:pd/classic,3,1,sum", tmp_path / "run", "--elicit-name") == 0
    report = parts(tmp_path / "run", capsys)
    # Always cooperating and always defecting are found out; of the other three, the first one is named.
    assert (report["answers"], report["valid"], report["right"]) == (20, 20, 12)
    assert run_eval("policy:wrong:pd/classic", tmp_path / "wrong", "--elicit-name", "--no-controls", *REVEALED) == 0
    report = parts(tmp_path / "wrong", capsys)
    assert report["right"] == 0
    assert report["total"]["inference"]["mean"] > 0.1
    assert_sums(report)
    assert main(["regret", str(tmp_path / "wrong"), "--horizon", "meta"]) == 0
    assert "0 of 20 answers named the opponent that the agent faced" in capsys.readouterr().out


def test_a_policy_without_a_belief_is_refused(tmp_path, capsys):
    for question in ("--elicit", "--elicit-name"):
        assert run_eval("policy:pd/all-c", tmp_path / "run", question) == 2
        assert "policy:pd/all-c states no belief" in capsys.readouterr().err
    arguments = ["eval", "policy:blind:pd/classic", *ENV[:2], "--opponents", "pd/all-c", "--elicit"]
    assert main(arguments) == 2
    assert "--elicit needs a panel with two or more opponents" in capsys.readouterr().err
    assert main(["adapt", "policy:counting", "--suite", "adapt-mini", "--elicit"]) == 2
    assert "policy:counting states no belief" in capsys.readouterr().err
