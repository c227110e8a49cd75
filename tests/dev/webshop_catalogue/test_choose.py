"""Choosing goals by search: the shipped choices are those of the command, and shares and guarantees hold."""

import pytest

from dev.webshop_catalogue import choose
from dev.webshop_catalogue.choose import CHOSEN, write
from mage_envs.games.webshop.catalogue_maker import SIZES, VERSION, Choice, edition, shipped, stream
from mage_envs.games.webshop.catalogue_maker.choices import name, read
from mage_envs.games.webshop.products import ProductStanding
from tests.games.webshop.maker.catalogues import make

SHIPPED = ("tiny", "small", "medium")


def test_files_are_of_this_version():
    names = {f"{size}{twin}.v{VERSION}" for size in SHIPPED for twin in ("", "-held-out")}
    assert {path.name for path in CHOSEN.iterdir()} == names


@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("size", SHIPPED)
def test_every_goal_has_a_choice(size, held_out):
    choices = shipped(size, held_out)
    assert len(choices) == 2 * SIZES[size]
    assert all(0 <= choice.candidate < choose.MAX_TRIES for choice in choices)
    assert min(choice.standing.near_misses for choice in choices) >= 5
    assert max(choice.standing.rank for choice in choices) <= 50


@pytest.mark.parametrize("size", ["large", 100, "nothing"])
def test_other_sizes_have_none(size):
    assert shipped(size, False) == []
    assert all(goal.standing is None for family in stream(100) for goal in family.goals)


def test_other_seeds_and_slips_have_none():
    for options in ({"seed": 1}, {"typos": 0.5}):
        assert all(goal.standing is None for goal in make("tiny", **options).goals)
    goals = make("tiny").goals
    assert [goal.standing for goal in goals] == [choice.standing for choice in shipped("tiny", False)]


def test_written_and_read(tmp_path):
    choices = [Choice(3, ProductStanding(0, 20, 300)), Choice(0, ProductStanding(50, 5, 0))]
    path = tmp_path / name("tiny", True)
    write(path, choices)
    assert [path.name for path in tmp_path.iterdir()] == [f"tiny-held-out.v{VERSION}"]
    assert read(path.read_bytes()) == [Choice(3, ProductStanding(0, 20, 255)), choices[1]]


def test_goals_that_cannot_be_proven_are_an_error(monkeypatch):
    monkeypatch.setattr(choose, "NEAR_MISSES", 21)
    with pytest.raises(RuntimeError, match="None of 256 candidates for a goal of '.*' can be proven"):
        list(choose.choose(7))


def test_the_patient_take_what_is_wanted_and_others_take_what_there_is(monkeypatch):
    patient = list(choose.choose(60))
    monkeypatch.setattr(choose, "PATIENCE", {"60": 3})
    hasty = list(choose.choose(60))
    assert max(choice.candidate for choice in patient) > 10
    assert sum(choice.candidate for choice in hasty) < 0.5 * sum(choice.candidate for choice in patient)
    assert min(choice.standing.near_misses for choice in hasty) >= 5


def test_an_edition_names_the_choices():
    names = {edition(size, held_out) for size in SHIPPED for held_out in (False, True)}
    assert len(names) == 2 * len(SHIPPED)
    assert edition("xl", False) == "first"


def test_the_command_writes_what_is_shipped(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(choose, "_SAVED", 150)
    assert choose.main(["--size", "tiny", "--folder", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 2
    assert told.err == f"\rtiny.v{VERSION}: 150 of 200 goals\rtiny-held-out.v{VERSION}: 150 of 200 goals"
    assert len(list(tmp_path.iterdir())) == 2
    for path in tmp_path.iterdir():
        assert read(path.read_bytes()) == read((CHOSEN / path.name).read_bytes())


def test_the_command_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    path = tmp_path / name("tiny", True)
    start = shipped("tiny", True)[:130]
    write(path.with_name(f"{path.name}.unfinished"), start)
    proven, of_goal = [], choose.proof_of
    monkeypatch.setattr(choose, "proof_of", lambda *given: proven.append(given) or of_goal(*given))
    assert choose.main(["--size", "tiny", "--only", "held-out", "--folder", str(tmp_path)]) == 0
    assert list(tmp_path.iterdir()) == [path]
    assert read(path.read_bytes()) == shipped("tiny", True)
    assert 70 <= len(proven) < 130, "what is known is not proven again"
