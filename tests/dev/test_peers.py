"""The comparison with other projects, with sides that need no network: ourselves, OpenSpiel, and a wheel made here."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from dev.peers.__main__ import ROWS, SideFigure, compare, main, measure, table, times_as_fast
from dev.peers.child import CELLS, ROUNDS, SUBJECTS, wandering
from dev.peers.sides import OURS, PEERS, Child, Side, Unavailable, interpreter
from mage_envs import make_game

BY_KEY = {row.key: row for row in ROWS}
AGAIN = Side("ours", "ourselves again")


def test_more_is_better_in_rates_and_less_in_times():
    ours, theirs = SideFigure("kuhn", "ours", 300.0), SideFigure("kuhn", "theirs", 100.0)
    assert times_as_fast(BY_KEY["kuhn"], ours, theirs) == 3
    assert times_as_fast(BY_KEY["sokoban-reset-6"], ours, theirs) == pytest.approx(1 / 3)
    assert times_as_fast(BY_KEY["kuhn"], ours, SideFigure("kuhn", "theirs", None)) is None
    assert times_as_fast(BY_KEY["kuhn"], SideFigure("kuhn", "ours", None), theirs) is None


def test_the_table_has_a_line_per_row_and_peer_and_names_missing_values():
    rows = [BY_KEY["kuhn"], BY_KEY["sokoban-reset-10"], BY_KEY["mcts"]]
    figures = [
        SideFigure("kuhn", "MAGE Envs", 400_000.0, 9),
        SideFigure("kuhn", "A", 1000.0, 77),
        SideFigure("kuhn", "B", None, missing="it has no such game"),
        SideFigure("sokoban-reset-10", "MAGE Envs", 2.5, 9),
        SideFigure("sokoban-reset-10", "A", 15_000.0, 1),
        SideFigure("sokoban-reset-10", "B", None, missing="no answer within 120 s"),
        SideFigure("mcts", "MAGE Envs", 5.0, 9),
        SideFigure("mcts", "A", None, missing="it has no such game"),
        SideFigure("mcts", "B", None, missing="it has no such game"),
    ]
    lines = table(rows, figures, {"C": "its installation failed: ERROR: no"}).splitlines()
    assert lines[2:] == [
        "| Kuhn Poker, steps | per second | 400,000 | A | 1,000 (77 done) | 400 |",
        "| Sokoban, reset, 10x10, 4 boxes | ms, median | 2.5 | A | 15,000 (1 done) | 6,000 |",
        "| Sokoban, reset, 10x10, 4 boxes | ms, median | 2.5 | B | n/a: no answer within 120 s |  |",
        "| MCTS, 100 simulations, moves | per second | 5 | A | n/a: it has no such game |  |",
        "",
        "C: n/a, its installation failed: ERROR: no.",
    ]


def test_rows_and_sides_fit():
    assert set(SUBJECTS) == {side.key for side in (OURS, *PEERS)}
    assert set(SUBJECTS["ours"]) == set(BY_KEY)
    for side in PEERS:
        assert set(SUBJECTS[side.key]) <= set(BY_KEY)


def test_the_walk_takes_all_ways_alike():
    counts = Counter(islice(wandering(), 8000))
    assert set(counts) == {0, 1, 2, 3}
    assert all(abs(count - 2000) < 200 for count in counts.values())


def test_the_scripts_for_textarena_are_whole_games():
    for cells in CELLS:
        assert sorted(cells) == [f"[{cell}]" for cell in range(9)]
    [_, state], *_ = make_game("KuhnPoker").initial_states()
    for rounds in ROUNDS:
        words = [word.strip("[]") for word in rounds]
        for _ in range(3):
            current = state
            while current.player is not None:
                current = current.after(words.pop(0))
        assert words == []


def test_ours_beside_ourselves(tmp_path):
    figures, failed = compare([AGAIN], ROWS, tmp_path, rounds=2, seconds=0.01, limit=60)
    assert failed == {}
    assert len(figures) == 2 * len(ROWS)
    # The error names the rows without figures.
    assert [figure.row for figure in figures if figure.missing or not (figure.value or 0.0) > 0] == []
    assert {figure.side for figure in figures} == {"MAGE Envs", "ourselves again"}
    moves = next(figure for figure in figures if figure.row == "sokoban-moves")
    assert moves.units >= 1000
    assert "n/a" not in table(ROWS, figures, failed)


def test_a_side_that_takes_too_long_or_ends_is_a_line_and_comes_back(tmp_path):
    with Child(AGAIN, interpreter(AGAIN, tmp_path)) as slow, Child(AGAIN, Path(shutil.which("false"))) as dead:
        with pytest.raises(Unavailable, match=r"no answer within 0\.001 s"):
            slow.ask("kuhn", 0.01, 0.001)
        assert slow.ask("kuhn", 0.01, 60)["rate"] > 0
        with pytest.raises(Unavailable, match="its process ended: it said nothing"):
            dead.ask("kuhn", 0.01, 60)
        figures = measure([BY_KEY["kuhn"]], {OURS: slow, AGAIN: dead}, rounds=2, seconds=0.01, limit=60)
    assert figures[0].value
    assert (figures[1].value, figures[1].missing) == (None, "its process ended: it said nothing")


def write_wheel(folder: Path) -> Path:
    """A package without content, so that pip has something to install without an index."""
    wheel = folder / "nothing_here-1.0-py3-none-any.whl"
    about = "nothing_here-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: nothing-here\nVersion: 1.0\n")
        file.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{about}/RECORD", f"{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    return wheel


def test_an_environment_is_made_once_and_is_apart_from_ours(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    side = Side("gem", "not GEM", (str(write_wheel(tmp_path)),))
    python = interpreter(side, tmp_path)
    assert list(tmp_path.glob("gem/lib/python*/site-packages/nothing_here-1.0.dist-info"))
    time_made = python.lstat().st_mtime_ns
    assert interpreter(side, tmp_path) == python
    assert python.lstat().st_mtime_ns == time_made
    with Child(side, python) as child, pytest.raises(Unavailable, match="ModuleNotFoundError: No module named 'gem'"):
        child.ask("sokoban-play", 0.01, 60)
    broken = Side("textarena", "Broken", ("surely-nobody-has-this==1.0",))
    figures, failed = compare([broken], [BY_KEY["kuhn"]], tmp_path, rounds=1, seconds=0.01, limit=60)
    assert [figure.side for figure in figures] == ["MAGE Envs"]
    assert failed["Broken"].startswith("its installation failed: ERROR: ")
    assert not (tmp_path / "textarena" / "complete.txt").exists()


def test_the_command_prints_saves_and_cleans_up(tmp_path, capsys):
    cache, results = tmp_path / "cache", tmp_path / "results"
    (cache / "open_spiel").mkdir(parents=True)
    arguments = ["--peers", "open_spiel", "--rows", "mcts", "--rounds", "1", "--seconds", "0.05"]
    assert main([*arguments, "--cache", str(cache), "--save", str(results)]) == 0
    output = capsys.readouterr().out
    assert "| MCTS, 100 simulations, moves | per second | " in output
    assert "OpenSpiel's Python bot" in output
    assert output.partition("\n\nCPU seconds")[0] in (results / "peers.md").read_text()
    saved = json.loads((results / "peers.json").read_text())
    assert [figure["side"] for figure in saved["figures"]] == ["MAGE Envs", "OpenSpiel's Python bot"]
    assert sorted(path.name for path in results.iterdir()) == ["peers.json", "peers.md"]
    assert not (cache / "open_spiel").exists()
    (cache / "open_spiel").mkdir()
    assert main([*arguments, "--cache", str(cache), "--keep"]) == 0
    assert (cache / "open_spiel").exists()
