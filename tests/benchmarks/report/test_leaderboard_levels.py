"""A leaderboard of runs: level, adaptation and verdict of each, and controls of other runs are refused."""

from __future__ import annotations

import json
import shutil

import pytest

from mage_envs.benchmarks.comparison.leaderboard import entry, rank_entries, write_page
from mage_envs.cli.program import main

LEARNER = "bayes:ultimatum/reserves,3,1"
AGENTS = {"best": f"policy:{LEARNER}", "random": "scripted:random"}


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """Return a folder with runs of the best learner and of random play, with their controls."""
    folder = tmp_path_factory.mktemp("board")
    for name, agent in AGENTS.items():
        arguments = ["eval", agent, "--panel", "adapt-ultimatum", "--controls", "--out", str(folder / name)]
        assert main([*arguments, "--no-baselines"]) == 0
    return folder


@pytest.fixture
def copy(board, tmp_path):
    """Return a copy of the runs that a test may change."""
    return shutil.copytree(board, tmp_path / "board")


def test_rows_have_both_numbers_and_the_order_of_their_levels(board, tmp_path):
    page = tmp_path / "board.json"
    write_page(page, [str(board / "random"), str(board / "best")], 4, None)
    last_row, first_row = json.loads(page.read_text("utf-8"))
    assert (first_row["rank"], last_row["rank"]) == ([1, 1], [2, 2])
    assert first_row["adaptation"]["level"]["mean"] == pytest.approx(1.0, abs=1e-9)
    # Without memory the best learner pays for learning in each episode, and gains nothing.
    lines = first_row["adaptation"]["lines"]
    assert first_row["adaptation"]["own"]["mean"] == pytest.approx(lines["best_adaptation"], abs=1e-9)
    assert (first_row["adaptation"]["verdict"], last_row["adaptation"]["verdict"]) == (
        "adapts",
        "does not measurably adapt",
    )
    page = tmp_path / "board.md"
    write_page(page, [str(board / "random"), str(board / "best")], 4, None)
    header, _, *rows = [line.split(" | ") for line in page.read_text("utf-8").splitlines() if line.startswith("| ")]
    assert header[3:7] == ["level", "own memory", "other's memory", "verdict"]
    assert [row[1] for row in rows] == [f"policy:{LEARNER}", "scripted:random"]
    assert rows[0][3].startswith("1.00 ± ")
    assert rows[0][6] == "adapts"


def test_the_same_run_twice_has_one_interval_of_ranks(board):
    assert rank_entries([entry(board / "best", 1)] * 2) == [(1, 2)] * 2


def test_runs_without_controls_have_a_level_and_no_verdict(copy, tmp_path):
    shutil.rmtree(copy / "best" / "controls")
    judged = entry(copy / "best", 1).judged
    assert judged.verdict is None
    assert judged.level.mean == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("control", ["none", "other"])
def test_a_control_of_another_agent_is_refused(copy, control):
    shutil.rmtree(copy / "best" / "controls" / control)
    shutil.copytree(copy / "random" / "controls" / control, copy / "best" / "controls" / control)
    with pytest.raises(ValueError, match=r"is not the control|was not played with the memories of"):
        entry(copy / "best", 1)


def test_a_damaged_control_is_refused(copy):
    [shard] = (copy / "best" / "controls" / "none" / "episodes").glob("*.jsonl.gz")
    shard.write_bytes(shard.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"best is not valid: controls/none: .*mage verify .*best prints all problems"):
        entry(copy / "best", 1)


def test_verify_checks_and_replays_the_controls(board, copy, capsys):
    assert main(["verify", str(board / "best")]) == 0
    assert main(["verify", str(board / "best"), "--replay", "--sample", "2"]) == 0
    assert capsys.readouterr().out.count(" executed again, all as recorded") == 3
    shutil.rmtree(copy / "best" / "controls" / "other")
    shutil.copytree(copy / "random" / "controls" / "other", copy / "best" / "controls" / "other")
    with pytest.raises(SystemExit, match="1"):
        main(["verify", str(copy / "best")])
    assert "is not the control 'other' of this run. Remove it." in capsys.readouterr().out


def test_agents_with_other_prompts_share_a_table_and_those_with_other_rules_do_not(board, tmp_path):
    common = ["eval", "scripted:random", "--panel", "adapt-ultimatum", "--no-baselines"]
    # `retry` is the default, so it is the same setting in more words.
    options = {"style": "style=words", "memory": "memory=history", "default": "on_invalid=retry"}
    for name, option in {**options, "rules": "on_invalid=forfeit"}.items():
        assert main([*common, "--game-option", option, "--out", str(tmp_path / name)]) == 0
    first_entry, *others = (entry(folder, 1) for folder in (board / "random", *map(tmp_path.joinpath, options)))
    assert {other.values["fingerprint"] for other in others} == {first_entry.values["fingerprint"]}
    assert others[0].values["style"] == "words"
    assert others[1].values["memory"] == "history"
    # A control is no agent's choice.
    control = entry(board / "random" / "controls" / "other", 1)
    assert control.values["fingerprint"] != first_entry.values["fingerprint"]
    assert entry(tmp_path / "rules", 1).values["fingerprint"] != first_entry.values["fingerprint"]
