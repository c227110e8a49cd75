"""What is kept beside training, killed at every point of its writing: a tournament, a built catalogue, answers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from mage_envs.benchmarks.tournaments import Settings, Store, play_all, score
from mage_envs.files.atomic import drafts_of, files_below
from mage_envs.files.cache import VARIABLE
from mage_envs.games.webshop.cache import MANIFEST, read_manifest, verify
from mage_envs.games.webshop.embedded import generate_catalogue
from mage_envs.opponents.llm.cache import AnswerCache, ServerAnswer
from tests.interruptions import distinct, forked, killed, points

KINDS = ("write", "fsync", "rename", "replace", "mkdir", "unlink", "rmdir")


def sweep(tmp_path: Path, act: Callable[[Path], object], check: Callable[[Path], None]) -> int:
    """Kills `act(folder)` at each point, does it again, and checks the folder; returns the number of points."""
    found = points(lambda: act(tmp_path / "whole"), tmp_path / "told")
    check(tmp_path / "whole")
    chosen = distinct(found, KINDS)
    for number in chosen:
        folder = tmp_path / "killed"
        killed(partial(act, folder), number)
        assert forked(partial(act, folder)) == 0, found[number - 1]
        check(folder)
        shutil.rmtree(folder)
    return len(chosen)


def test_a_tournament(tmp_path: Path) -> None:
    settings = Settings("KuhnPoker", ("kuhn/nash", "uniform"), games=2)
    wanted = score(settings, play_all(settings)).to_json()

    def check(folder: Path) -> None:
        assert score(settings, play_all(settings, store=Store(folder, settings))).to_json() == wanted

    assert sweep(tmp_path, lambda folder: play_all(settings, store=Store(folder, settings)), check) > 10


def test_the_catalogue_that_is_made_on_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a catalogue is never found under its name, and the next process makes the same one."""
    folder = tmp_path / "cache"
    monkeypatch.setenv(VARIABLE, str(folder))
    make = partial(generate_catalogue, "tiny", "train")
    found = points(make, tmp_path / "told")
    shop = make()
    wanted = content(shop)
    assert len(wanted) > 20
    tried = set()
    chosen = distinct(found, ("write", "rename", "replace", "mkdir", "unlink", "rmdir"))
    for number in chosen:
        shutil.rmtree(folder, ignore_errors=True)
        killed(make, number)
        assert not shop.exists() or content(shop) == wanted, found[number - 1]
        left = tuple(path.name.split(".")[-1] for path in sorted(folder.glob("webshop/*")))
        if left not in tried:  # what lies in a draft is not looked into
            tried.add(left)
            assert forked(make) == 0, found[number - 1]
            assert content(shop) == wanted, found[number - 1]
            assert drafts_of(folder / "webshop") == [], found[number - 1]
    assert len(chosen) > 60  # Python 3.14 needs fewer calls than 3.11
    assert len(tried) >= 3


def content(shop: Path) -> dict[str, bytes]:
    """A built catalogue's files, which are those that its manifest names."""
    verify(shop)
    named = {Path(name).name for name in read_manifest(shop)["files"]} | {MANIFEST}
    return {str(path.relative_to(shop)): path.read_bytes() for path in files_below(shop) if path.name in named}


def test_answers_of_models(tmp_path: Path) -> None:
    """SQLite writes by itself, so the kills lie between its transactions: each answer is there whole, or not."""
    path = tmp_path / "llm.sqlite"
    given = [ServerAnswer(f"answer {n}" * 500, False, n, n) for n in range(5)]

    def ask() -> None:
        cache = AnswerCache(path)
        for number, answer in enumerate(given):
            cache.add(str(number), answer)
            (tmp_path / f"mark-{number}").write_text("x")

    found = points(ask, tmp_path / "told")
    chosen = distinct(found, ("write",))
    assert len(chosen) == len(given)
    for answered, number in enumerate(chosen, start=1):
        for file in tmp_path.glob("llm.sqlite*"):
            file.unlink()
        killed(ask, number)
        cache = AnswerCache(path)
        assert [cache.get(str(n)) for n in range(answered)] == given[:answered]
        assert len(cache) == answered
        cache.close()
