"""The tables of README.md and docs/*.md that follow from the registered games."""

from __future__ import annotations

import pytest

from dev.doc_tables import PAGES, ROOT, TABLES, games, options, rewritten, section, summary, table
from mage_envs import load_game
from tests.processes import run_python


def test_the_tables_are_up_to_date() -> None:
    # In a process of its own, because other tests register games and opponents in this one.
    process = run_python("-m", "dev.doc_tables", "--check", folder=ROOT)
    assert process.returncode == 0, process.stderr


def test_each_table_is_in_one_page() -> None:
    pages = "".join((ROOT / page).read_text() for page in PAGES)
    assert [pages.count(f"<!-- table: {name} -->\n") for name in TABLES] == [1] * len(TABLES)
    assert pages.count("<!-- end of table -->") == len(TABLES)


def test_an_old_table_is_replaced_and_the_text_around_it_stays() -> None:
    seats = TABLES["seats"]()
    page = "before\n<!-- table: seats -->\nold\n<!-- end of table -->\nafter\n"
    new = f"before\n<!-- table: seats -->\n{seats}<!-- end of table -->\nafter\n"
    assert rewritten(page) == new == rewritten(new)
    assert seats.splitlines()[:3] == ["| game | default `seat` |", "|---|---|", "| PrisonersDilemma | `first` |"]


def test_the_parts_of_a_docstring() -> None:
    kuhn, leduc = load_game("KuhnPoker"), load_game("LeducPoker")
    assert summary(kuhn.__doc__) == "Kuhn Poker with two players, returns in chips"
    assert section(kuhn, "Success") == "more chips won than lost"
    assert section(leduc, "Success") == "the game's return is positive", "of its base class"
    assert list(options(load_game("Ultimatum"))) == ["offers", "pie"]
    assert options(leduc) == {}
    assert table(("a", "b"), [("1", "2")]) == "| a | b |\n|---|---|\n| 1 | 2 |\n"
    with pytest.raises(ValueError, match="The docstring of int must have a section 'Success: ...'"):
        section(int, "Success")


@pytest.mark.parametrize("name", games())
def test_every_game_says_what_it_is_and_what_a_success_is(name: str) -> None:
    assert summary(load_game(name).__doc__)
    assert section(load_game(name), "Success")
