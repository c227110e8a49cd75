"""CFR for any small game: its exploitability, its errors, and the copy on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mage_envs import progress
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.openspiel.openspiel_game import OpenSpiel
from mage_envs.games.openspiel.registered import LeducPoker
from mage_envs.opponents import make_opponent
from mage_envs.opponents.exact import nash_conv, policy_value
from mage_envs.opponents.search import average_policy
from mage_envs.opponents.search.openspiel import DoesNotSuit
from tests.opponents.dealing import dealt

LEDUC = "leduc_poker(suit_isomorphism=True)"


def test_leduc_comes_close_to_its_value() -> None:
    """The first player's value of Leduc is -0.0856 (Southey et al. 2005 and every solver since)."""
    game = LeducPoker()
    assert nash_conv(game, ["cfr:300", "cfr:300"]) < 0.01
    assert policy_value(game, ["cfr:300", "cfr:300"])[0] == pytest.approx(-0.0856, abs=0.003)


def test_plus_beats_plain() -> None:
    game = OpenSpiel("kuhn_poker")
    assert nash_conv(game, ["cfr:200", "cfr:200"]) < nash_conv(KuhnPoker(), ["cfr:200", "cfr:200"]) / 3


def test_argmax_is_pure_and_exploitable() -> None:
    game = LeducPoker()
    policy = make_opponent("cfr-argmax:100", game)
    assert list(policy.distribution(dealt(game).turn(0)).values()) == [1.0]  # type: ignore[attr-defined]
    assert nash_conv(game, ["cfr-argmax:100", "cfr-argmax:100"]) > nash_conv(game, ["cfr:100", "cfr:100"])


@pytest.mark.parametrize(
    ("game", "reason"),
    [("hex(board_size=4)", "more than 1,000,000 histories"), ("pig", "no information state strings")],
)
def test_what_cannot_be_solved(game: str, reason: str) -> None:
    with pytest.raises(DoesNotSuit, match=reason):
        make_opponent("cfr:2", OpenSpiel(game))


def test_iterations_must_be_positive() -> None:
    with pytest.raises(ValueError, match=r"^Opponent 'cfr-argmax': iterations must be from 1 to 1,000,000, got 0\.$"):
        make_opponent("cfr-argmax:0", KuhnPoker())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path))
    monkeypatch.setattr(average_policy, "WORTH_KEEPING", 1)
    average_policy.average_policy.cache_clear()
    return tmp_path / "cfr"


def again() -> average_policy.AveragePolicy:
    average_policy.average_policy.cache_clear()
    return average_policy.average_policy(LEDUC, 7, "CFRPlusSolver")


def test_the_copy_on_disk_is_the_policy_and_is_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = again()
    (path,) = cache.iterdir()
    assert path.suffix == ".json"
    monkeypatch.setattr(average_policy, "_solve", None)  # a second solution fails
    assert again() == policy
    assert sum(next(iter(policy.values()))) == pytest.approx(1)


@pytest.mark.parametrize("damage", ["policy", "key", "half", "nothing", "list"])
def test_a_damaged_copy_is_solved_again(cache: Path, damage: str) -> None:
    policy = again()
    (path,) = cache.iterdir()
    text = path.read_text()
    data = json.loads(text)
    if damage == "policy":
        state = next(iter(data["policy"]))
        data["policy"][state] = data["policy"][state][::-1]
        path.write_text(json.dumps(data))
    elif damage == "key":
        data["key"]["open_spiel"] = "1.0"
        path.write_text(json.dumps(data))
    else:
        path.write_text({"half": text[: len(text) // 2], "nothing": "", "list": "[]"}[damage])
    assert again() == policy
    assert path.read_text() == text


def test_other_iterations_are_another_file(cache: Path) -> None:
    again()
    average_policy.average_policy(LEDUC, 8, "CFRPlusSolver")
    assert len(list(cache.iterdir())) == 2


def test_cheap_solutions_stay_off_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path))
    average_policy.average_policy.cache_clear()
    average_policy.average_policy("kuhn_poker", 100, "CFRSolver")
    assert not (tmp_path / "cfr").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(average_policy, "WORTH_KEEPING", 1)
    average_policy.average_policy.cache_clear()
    with pytest.raises(OSError, match="Set MAGE_ENVS_CACHE to another folder"):
        average_policy.average_policy("kuhn_poker", 3, "CFRSolver")


def test_a_long_solution_says_how_long_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Print the remaining time at once here; and on stderr of a command, whose result does not change."""
    from mage_envs.cli.program import main

    arguments = ["tournament", "KuhnPoker", "--opponents", "cfr:7,uniform", "--games", "2", "--executor", "local"]
    average_policy.average_policy.cache_clear()
    assert main(arguments) == 0
    quiet = capsys.readouterr()
    assert "CFR solves" not in quiet.err
    monkeypatch.setattr(progress, "FIRST_TOLD", 0.0)
    average_policy.average_policy.cache_clear()
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.out == quiet.out
    assert "CFR solves kuhn_poker: 1 of 7 iterations, 0 s left.\n" in captured.err
    average_policy.average_policy.cache_clear()
