"""Stores beside training, killed at every point of their writing: a tournament, a built catalogue, answers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mage_envs.benchmarks.tournaments.pairing_store import Store
from mage_envs.benchmarks.tournaments.results import score
from mage_envs.benchmarks.tournaments.schedule import play_all
from mage_envs.benchmarks.tournaments.tournament_settings import Settings
from mage_envs.files.atomic import drafts_of, files_below
from mage_envs.files.cache import VARIABLE
from mage_envs.games.webshop.cache import MANIFEST, read_manifest, verify
from mage_envs.games.webshop.embedded import generate_catalogue
from mage_envs.opponents.llm.cache import AnswerCache, ServerAnswer
from tests.interruptions import distinct, kill_at, points, run_in_fork

KINDS = ("write", "fsync", "rename", "replace", "mkdir", "unlink", "rmdir")


def sweep(tmp_path: Path, act: Callable[[Path], object], check: Callable[[Path], None]) -> int:
    """Kills `act(folder)` at each point, does it again, and checks the folder; returns the number of points."""
    kill_points = points(lambda: act(tmp_path / "whole"), tmp_path / "told")
    check(tmp_path / "whole")
    numbers = distinct(kill_points, KINDS)
    for number in numbers:
        folder = tmp_path / "killed"
        kill_at(partial(act, folder), number)
        assert run_in_fork(partial(act, folder)) == 0, kill_points[number - 1]
        check(folder)
        shutil.rmtree(folder)
    return len(numbers)


@pytest.mark.more
def test_a_tournament(tmp_path: Path) -> None:
    settings = Settings("KuhnPoker", ("kuhn/nash", "uniform"), games=2)
    expected = score(settings, play_all(settings)).to_json()

    def check(folder: Path) -> None:
        assert score(settings, play_all(settings, store=Store(folder, settings))).to_json() == expected

    assert sweep(tmp_path, lambda folder: play_all(settings, store=Store(folder, settings)), check) > 10


@pytest.mark.more
def test_the_catalogue_that_is_made_on_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a catalogue is never found under its name, and the next process makes the same one."""
    folder = tmp_path / "cache"
    monkeypatch.setenv(VARIABLE, str(folder))
    make = partial(generate_catalogue, "tiny", "train")
    kill_points = points(make, tmp_path / "told")
    shop = make()
    expected = content(shop)
    assert len(expected) > 20
    tried = set()
    numbers = distinct(kill_points, ("write", "rename", "replace", "mkdir", "unlink", "rmdir"))
    for number in numbers:
        shutil.rmtree(folder, ignore_errors=True)
        kill_at(make, number)
        assert not shop.exists() or content(shop) == expected, kill_points[number - 1]
        leftovers = tuple(path.name.split(".")[-1] for path in sorted(folder.glob("webshop/*")))
        if leftovers not in tried:  # the contents of a draft do not matter
            tried.add(leftovers)
            assert run_in_fork(make) == 0, kill_points[number - 1]
            assert content(shop) == expected, kill_points[number - 1]
            assert drafts_of(folder / "webshop") == [], kill_points[number - 1]
    assert len(numbers) > 60  # Python 3.14 needs fewer calls than 3.11
    assert len(tried) >= 3


def content(shop: Path) -> dict[str, bytes]:
    """A built catalogue's files, which are those that its manifest names."""
    verify(shop)
    file_names = {Path(name).name for name in read_manifest(shop)["files"]} | {MANIFEST}
    return {str(path.relative_to(shop)): path.read_bytes() for path in files_below(shop) if path.name in file_names}


def test_answers_of_models(tmp_path: Path) -> None:
    """SQLite writes by itself, so the kills come between its transactions: each answer is stored whole or not."""
    path = tmp_path / "llm.sqlite"
    answers = [ServerAnswer(f"answer {n}" * 500, False, n, n) for n in range(5)]

    def ask() -> None:
        cache = AnswerCache(path)
        for number, answer in enumerate(answers):
            cache.add(str(number), answer)
            (tmp_path / f"mark-{number}").write_text("x")

    kill_points = points(ask, tmp_path / "told")
    numbers = distinct(kill_points, ("write",))
    assert len(numbers) == len(answers)
    for num_answers, number in enumerate(numbers, start=1):
        for file in tmp_path.glob("llm.sqlite*"):
            file.unlink()
        kill_at(ask, number)
        cache = AnswerCache(path)
        assert [cache.get(str(n)) for n in range(num_answers)] == answers[:num_answers]
        assert len(cache) == num_answers
        cache.close()
