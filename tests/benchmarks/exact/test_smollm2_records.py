"""The committed records of a small language model are valid, and docs/results.md says what follows from them."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from mage_envs.benchmarks.records.validate import problems
from mage_envs.benchmarks.scale.judged_play import judge_folder
from mage_envs.benchmarks.scale.scale_text import score_text

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["smollm2-imitated", "smollm2-trained"])
def test_records_are_valid_and_give_the_row_of_the_page(name, tmp_path):
    with tarfile.open(ROOT / "benchmarks" / "results" / "smollm2_records.tar.xz") as archive:
        members = [member for member in archive.getmembers() if member.name.partition("/")[0] == name]
        archive.extractall(tmp_path, members, filter="data")
    assert problems(tmp_path / name) == []
    judged = judge_folder(tmp_path / name)
    assert judged.verdict == "adapts"
    row = judged.row()
    levels = " | ".join(map(score_text, (row.level, row.own_score, row.other_score)))
    episodes = " ".join(f"{value.mean:.3f}".removeprefix("0") for value in row.episodes)
    assert f"| {levels} | {episodes} |" in (ROOT / "docs" / "results.md").read_text("utf-8")
    assert f"{name} | history, conversation, words | {levels} | adapts |" in (
        ROOT / "benchmarks" / "results" / "ultimatum_board.md"
    ).read_text("utf-8")
