"""`mage eval --elicit` and the parts of the regret that `mage regret` prints."""

from __future__ import annotations

import json

import pytest

from benchmarks.__main__ import main
from benchmarks.records.record_store import Records

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
    assert main(["replay", str(asked), "--verify"]) == 0
    assert main(["validate", str(asked)]) == 0
    there, here = ([line["calls"] for _, line in sorted(Records(one).lines.items())] for one in (asked, plain))
    assert sum(call["kind"] == "belief" for calls in there for call in calls) == 20

    def played(calls):
        """The calls of play without the events, which hold the answer and lengths of the memory."""
        return [{k: v for k, v in one.items() if k != "memory_events"} for one in calls if one["kind"] == "play"]

    assert [played(calls) for calls in there] == [played(calls) for calls in here]
    found = parts(asked, capsys)
    # The blind player names the first of five equally likely opponents.
    assert (found["answers"], found["named"], found["right"]) == (20, 20, 4)
    for one in (*found["episodes"], found["total"]):
        mean = {name: value["mean"] for name, value in one.items()}
        split = mean["inference"] + mean["decision"] + mean["unsplit"] + mean["exploration"]
        assert split == pytest.approx(mean["regret"], abs=1e-12)
        assert mean["unsplit"] == pytest.approx(0, abs=1e-12)
    assert found["total"]["inference"]["mean"] > 0.1, "it names an opponent that the hands exclude"
    assert found["episodes"][0]["inference"]["mean"] == 0, "it was not asked yet"


def test_without_answers_two_parts_are_one_figure(tmp_path, capsys):
    assert evaluated("policy:bayes:pd/classic,3,1,sum", tmp_path / "run") == 0
    found = parts(tmp_path / "run", capsys)
    assert not found["elicited"]
    total = {name: value["mean"] for name, value in found["total"].items()}
    assert total["inference"] == total["decision"] == 0
    # The optimum for the sum gives up .16 in the first episode to learn, which pays later.
    assert total["unsplit"] == pytest.approx(0.16)
    assert total["exploration"] == pytest.approx(-0.16)
    assert main(["regret", str(tmp_path / "run"), "--horizon", "meta"]) == 0
    text = capsys.readouterr().out
    assert "inference + decision" in text
    assert "the agent was not asked for its belief (mage eval --elicit)" in text


def test_the_posterior_names_the_most_likely_opponent(tmp_path, capsys):
    assert evaluated("policy:bayes:pd/classic,3,1,sum", tmp_path / "run", "--elicit") == 0
    found = parts(tmp_path / "run", capsys)
    # Always cooperating and always defecting are found out; of the other three, the first one is named.
    assert (found["answers"], found["named"], found["right"]) == (20, 20, 12)
    assert found["total"]["inference"] == found["total"]["least"]


def test_a_policy_without_the_hook_is_refused(tmp_path, capsys):
    assert evaluated("policy:pd/all-c", tmp_path / "run", "--elicit") == 2
    assert "policy:pd/all-c names no opponent" in capsys.readouterr().err
    one = ["eval", "policy:blind:pd/classic", *ENV[:2], "--opponents", "pd/all-c", "--elicit"]
    assert main(one) == 2
    assert "--elicit needs a panel with two or more opponents" in capsys.readouterr().err
