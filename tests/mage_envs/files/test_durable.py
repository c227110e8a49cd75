"""Leftovers of killed processes are removed, and other files stay."""

from __future__ import annotations

import os
from pathlib import Path

from mage_envs.files.atomic import draft_beside, drafts_of, remove_drafts, write_atomically, write_json


def test_the_next_writer_removes_what_a_killed_one_left_an_hour_ago(tmp_path: Path) -> None:
    old, young, folder = (draft_beside(tmp_path / name) for name in ("a.json", "b.json", "checkpoint-1"))
    for draft in (old, young):
        draft.write_text("half")
    folder.mkdir()
    foreign = tmp_path / ".a.json.partial"
    foreign.write_text("")
    for path in (old, folder, foreign):
        os.utime(path, (0, 0))
    write_atomically(tmp_path / "c.json", "{}")
    assert sorted(tmp_path.iterdir()) == sorted([young, folder, foreign, tmp_path / "c.json"])


def test_drafts_are_recognised_by_their_whole_names(tmp_path: Path) -> None:
    mine, other_draft = draft_beside(tmp_path / "shop"), draft_beside(tmp_path / "shop.large")
    for draft in (mine, other_draft):
        draft.mkdir()
    assert drafts_of(tmp_path, "shop") == [mine]
    remove_drafts(tmp_path, "shop")
    assert list(tmp_path.iterdir()) == [other_draft]


def test_json_is_indented_and_ends_with_a_line_break(tmp_path: Path) -> None:
    path = tmp_path / "new" / "content.json"
    write_json(path, {"b": [1], "a": None})
    assert path.read_text() == '{\n  "b": [\n    1\n  ],\n  "a": null\n}\n'
    write_json(path, {"b": 1, "a": 2}, sort_keys=True)
    assert path.read_text() == '{\n  "a": 2,\n  "b": 1\n}\n'
    assert drafts_of(path.parent) == []
