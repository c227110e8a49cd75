"""The one place that draws tables: rich on a terminal, aligned text in a pipe."""

from __future__ import annotations

import pytest

from mage_envs.cli.program import complain
from mage_envs.cli.tables import TextTable, as_text, print_report
from tests.mage_envs.cli.terminal import ESCAPES, be_terminal, on_terminal

SCORES = TextTable(
    ["opponent", "episode 1", "episode 2", "gain"],
    ["trained against", ["  rock", "0.25 ±0.10", "0.5", "0.25"], ["all of them", "1", "n/a", "-1"]],
)
TEXTS = TextTable(
    ["", ""], [["model:FOLDER", "a saved model in a folder, which mage train writes"], ["a", "b"]], (0, 1)
)


def test_plain_text_is_aligned() -> None:
    assert as_text(["Title", SCORES]) == (
        "Title\n"
        "opponent      episode 1  episode 2  gain\n"
        "----------------------------------------\n"
        "trained against\n"
        "  rock       0.25 ±0.10        0.5  0.25\n"
        "all of them           1        n/a    -1\n"
    )
    assert str(TEXTS) == ("model:FOLDER  a saved model in a folder, which mage train writes\na             b"), (
        "no titles, and no blanks at the end of a line"
    )


def test_a_forged_cell_stays_in_its_cell() -> None:
    forged = TextTable(["name", "n"], [["a\nb\x1b[31m", "1"]])
    assert str(forged).splitlines()[2:] == ["a b[U+001B][31m  1"]


@pytest.mark.parametrize(
    ("columns", "parts"), [(33, ["opponent  episode 1", "opponent  episode 2  gain"]), (80, ["opponent  episode 1"])]
)
def test_a_terminal_gets_the_columns_that_fit(
    columns: int, parts: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table_text = on_terminal([SCORES, TEXTS], columns, monkeypatch, capsys)
    lines = [" ".join(line.split()) for line in table_text.splitlines()]
    assert max(map(len, table_text.splitlines())) <= columns
    for part in parts:
        assert any(line.startswith(" ".join(part.split())) for line in lines), table_text
    for cell in ("0.25 ±0.10", "0.5", "n/a", "-1"):
        assert cell in table_text
    assert "…" not in table_text
    assert "a saved model" in table_text


def test_a_terminal_without_colour_gets_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    be_terminal(monkeypatch, 80, "stderr")
    complain("mage: it's [bold]wrong[/bold]")
    assert "\x1b[31m" in (red := capsys.readouterr().err)
    monkeypatch.setenv("NO_COLOR", "1")
    complain("mage: it's [bold]wrong[/bold]")
    plain = capsys.readouterr().err
    assert "\x1b[3" not in plain
    assert ESCAPES.sub("", red) == ESCAPES.sub("", plain) == "mage: it's [bold]wrong[/bold]\n"


def test_a_pipe_gets_no_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(["Title", SCORES])
    complain("mage: wrong")
    captured = capsys.readouterr()
    assert captured.out == as_text(["Title", SCORES])
    assert captured.err == "mage: wrong\n"
