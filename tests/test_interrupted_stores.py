"""What is kept beside training, killed at every point of its writing: a tournament, a built catalogue, answers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.tournaments import Settings, Store, play_all, score
from mage_envs.games.webshop.cache import cached, verify
from opponents.llm.cache import AnswerCache, ServerAnswer
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


def test_a_catalogue_that_is_built_once(tmp_path: Path) -> None:
    def build(folder: Path) -> dict[str, object]:
        for number in range(3):
            (folder / f"part-{number}").write_bytes(bytes([number]) * 10_000)
        return {"parts": 3}

    def check(folder: Path) -> None:
        built = folder / "webshop" / "small"
        verify(built)
        assert [path.read_bytes() for path in sorted(built.glob("part-*"))] == [bytes([n]) * 10_000 for n in range(3)]
        assert [path.name for path in (folder / "webshop").glob("*draft*")] == []

    assert sweep(tmp_path, lambda folder: cached("small", build, folder), check) > 8


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
