"""`mage eval --elicit` and the parts of the regret that `mage regret` prints."""

from __future__ import annotations

import json

import pytest

from mage_envs.benchmarks.records.record_store import Records
from mage_envs.cli.game_options import as_flags
from mage_envs.cli.program import main

REVEALED = ["--game-option", "reveal_opponent=true"]
ENV = ["--env", "mage/PrisonersDilemma-Meta-v0", "--opponents", "pool:pd/classic", "--memory", "history"]


def evaluated(agent, folder, *options):
    return main(["eval", agent, *ENV, "--rows", "2", "--no-baselines", "--out", str(folder), *options])


def parts(folder, capsys):
    capsys.readouterr()
    assert main(["regret", str(folder), "--horizon", "meta", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["parts"]


def test_beliefs_are_recorded_replayed_and_scored(tmp_path, capsys):
    asked, plain = tmp_path / "asked", tmp_path / "plain"
    assert evaluated("policy:blind:pd/classic", asked, "--elicit") == 0
    assert evaluated("policy:blind:pd/classic", plain) == 0
    assert main(["verify", "--replay", str(asked)]) == 0
    assert main(["verify", str(asked)]) == 0
    there, here = ([line["calls"] for _, line in sorted(Records(one).lines.items())] for one in (asked, plain))
    assert sum(call["kind"] == "belief" for calls in there for call in calls) == 20

    def played(calls):
        """The calls of play without the events, which hold the answer and lengths of the memory."""
        return [{k: v for k, v in one.items() if k != "memory_events"} for one in calls if one["kind"] == "play"]

    assert [played(calls) for calls in there] == [played(calls) for calls in here]
    found = parts(asked, capsys)
    assert (found["answers"], found["valid"]) == (20, 20)
    assert_sums(found)
    assert found["total"]["inference"]["mean"] == pytest.approx(0.08), "it reports the prior, whatever it saw"
    assert found["total"]["decision"]["mean"] == pytest.approx(0, abs=1e-9), "it plays best under what it reports"
    assert found["episodes"][0]["inference"]["mean"] == 0, "it was not asked yet"
    # Five equally likely opponents: .8 squared for the true one, and .2 squared for each of the others.
    assert found["total"]["brier"]["mean"] == pytest.approx(0.8)
    assert found["total"]["posterior_brier"]["mean"] < 0.7


def assert_sums(found):
    """The parts add up to the regret, in each episode and in all."""
    for column in (*found["episodes"], found["total"]):
        mean = {name: value["mean"] for name, value in column.items() if value is not None}
        split = mean["inference"] + mean["decision"] + mean["unsplit"] + mean["exploration"]
        assert split == pytest.approx(mean["regret"], abs=1e-12)


def test_without_answers_two_parts_are_one_figure(tmp_path, capsys):
    assert evaluated("policy:myopic:pd/classic,3,1", tmp_path / "run") == 0
    found = parts(tmp_path / "run", capsys)
    assert not found["elicited"]
    assert found["total"]["inference"]["mean"] == found["total"]["decision"]["mean"] == 0
    # Against the optimum for the sum, the myopic learner loses what it does not learn.
    assert found["total"]["unsplit"]["mean"] == pytest.approx(0, abs=1e-9)
    assert found["total"]["exploration"]["mean"] > 0.1
    assert_sums(found)
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


@pytest.mark.parametrize("question", ["--elicit", "--elicit-name"])
@pytest.mark.parametrize(("game", "pool", "options", "hands"), GAMES)
def test_every_part_of_the_best_learner_is_0(tmp_path, capsys, game, pool, options, hands, question):
    episodes = options.get("num_episodes", 3)
    agent, folder = f"policy:bayes:{pool},{episodes},{hands},sum", str(tmp_path / "run")
    command = ["eval", agent, "--env", f"mage/{game}-Meta-v0", "--opponents", f"pool:{pool}", "--memory", "history"]
    command += [*as_flags(options), "--rows", "1", "--no-baselines", "--out", folder, question]
    assert main(command) == 0
    found = parts(folder, capsys)
    assert found["valid"] == found["answers"] > 0
    assert found["is_name"] == (question == "--elicit-name")
    for column in (*found["episodes"], found["total"]):
        for name in ("regret", "inference", "exploration", "decision", "unsplit", "gap"):
            assert column[name]["mean"] == pytest.approx(0, abs=1e-7), name
    if question == "--elicit":
        # The belief that it reports is the posterior, so both have the same score.
        assert found["total"]["brier"] == pytest.approx(found["total"]["posterior_brier"])
    else:
        assert found["total"]["brier"] is None


def test_the_myopic_learner_lacks_exploration_alone(tmp_path, capsys):
    assert evaluated("policy:myopic:pd/classic,3,1", tmp_path / "run", "--elicit") == 0
    total = {name: value["mean"] for name, value in parts(tmp_path / "run", capsys)["total"].items()}
    assert total["exploration"] == pytest.approx(total["regret"])
    # Its acts are not the best ones under its belief, as it does not plan ahead.
    assert total["gap"] == pytest.approx(total["regret"])
    assert total["regret"] > 0.1


def test_a_name_costs_what_it_adds_to_that_of_the_most_likely_opponent(tmp_path, capsys):
    assert evaluated("policy:bayes:pd/classic,3,1,sum", tmp_path / "run", "--elicit-name") == 0
    found = parts(tmp_path / "run", capsys)
    # Always cooperating and always defecting are found out; of the other three, the first one is named.
    assert (found["answers"], found["valid"], found["right"]) == (20, 20, 12)
    assert evaluated("policy:wrong:pd/classic", tmp_path / "wrong", "--elicit-name", "--no-controls", *REVEALED) == 0
    found = parts(tmp_path / "wrong", capsys)
    assert found["right"] == 0
    assert found["total"]["inference"]["mean"] > 0.1
    assert_sums(found)
    assert main(["regret", str(tmp_path / "wrong"), "--horizon", "meta"]) == 0
    assert "0 of 20 answers named the opponent that the agent faced" in capsys.readouterr().out


def test_a_policy_without_a_belief_is_refused(tmp_path, capsys):
    for question in ("--elicit", "--elicit-name"):
        assert evaluated("policy:pd/all-c", tmp_path / "run", question) == 2
        assert "policy:pd/all-c states no belief" in capsys.readouterr().err
    one = ["eval", "policy:blind:pd/classic", *ENV[:2], "--opponents", "pd/all-c", "--elicit"]
    assert main(one) == 2
    assert "--elicit needs a panel with two or more opponents" in capsys.readouterr().err
    assert main(["adapt", "policy:counting", "--suite", "adapt-mini", "--elicit"]) == 2
    assert "policy:counting states no belief" in capsys.readouterr().err
