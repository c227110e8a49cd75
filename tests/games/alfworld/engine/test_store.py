"""Compiled games on disk."""

from __future__ import annotations

import zlib

import pytest

from mage_envs.games.alfworld import packages
from mage_envs.games.alfworld import store as store_module
from mage_envs.games.alfworld.compiler import game_key
from mage_envs.games.alfworld.engine import FastEngine
from mage_envs.games.alfworld.gamefile import read_game
from mage_envs.games.alfworld.library import LibraryPool
from mage_envs.games.alfworld.store import POOL, GameStore
from tests.games.alfworld.engine.games import needs_engine, plan, run_python, tiny

pytestmark = needs_engine


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path))
    return tmp_path / "alfworld"


def find_stored_file(folder):
    (path,) = folder.iterdir()
    return path


def test_the_translation_is_kept(folder, monkeypatch):
    first_game = GameStore(POOL).load(tiny())
    assert find_stored_file(folder).name == f"{first_game.key}.game"

    def translate(domain, problem):
        raise AssertionError("translated twice")

    monkeypatch.setattr(packages, "translate", translate)
    second_game = GameStore(POOL).load(tiny())
    assert second_game is not first_game
    assert (second_game.key, second_game.sas, second_game.intro) == (first_game.key, first_game.sas, first_game.intro)
    engine = FastEngine()
    engine.load(second_game)
    engine.reset()
    assert [engine.step(command).won for command in plan(tiny())][-1]
    engine.close()


def damages():
    yield "empty", lambda content: b""
    yield "no head", lambda content: b"hello"
    yield "half", lambda content: content[: len(content) // 2]
    yield "one byte missing", lambda content: content[:-1]
    for where in (3, 40, 110, 400, -1000, -1):
        yield f"byte {where} flipped", lambda content, at=where: flip_byte(content, at)
    yield (
        "another planning task",
        lambda content: content.partition(b"\n")[0] + b"\n" + zlib.compress(b"begin_version\n9"),
    )
    yield "another version", lambda content: content.replace(b"game 1", b"game 0", 1)


def flip_byte(content, at):
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


@pytest.mark.parametrize("damage", [pytest.param(change, id=name) for name, change in damages()])
def test_a_damaged_file_is_made_again(folder, damage):
    first_game = GameStore(POOL).load(tiny())
    path = find_stored_file(folder)
    content = path.read_bytes()
    path.write_bytes(damage(content))
    second_game = GameStore(POOL).load(tiny())
    assert second_game.sas == first_game.sas
    assert find_stored_file(folder).read_bytes() == content


def test_a_file_of_another_game_is_not_taken(folder):
    GameStore(POOL).load(tiny())
    path = find_stored_file(folder)
    path.rename(path.with_name(f"{game_key(read_game(tiny(index=1)))}.game"))
    store = GameStore(POOL)
    assert store.load(tiny(index=1)).intro != store.load(tiny()).intro


def test_the_key_covers_all_texts_and_the_versions(monkeypatch):
    text = read_game(tiny())
    keys = {
        game_key(text),
        *(game_key(text._replace(**{field: "other"})) for field in ("domain", "problem", "grammar")),
    }
    monkeypatch.setattr(packages, "versions", lambda: ("textworld 9",))
    assert len(keys | {game_key(text)}) == 5
    assert game_key(text._replace(source="elsewhere")) == game_key(text)


def test_a_folder_that_cannot_be_written_costs_a_warning(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="set MAGE_ENVS_CACHE to a folder that can be written"):
        assert GameStore(POOL).load(tiny()).intro


def test_memory_holds_the_games_that_were_used_last(monkeypatch):
    monkeypatch.setattr(store_module, "_KEPT", 2)
    store = GameStore(POOL)
    first_game, second_game, _ = (store.load(tiny(index=index)) for index in (0, 1, 0))
    store.load(tiny(index=2))
    assert store.load(tiny(index=0)) is first_game
    reloaded = store.load(tiny(index=1))
    assert reloaded is not second_game
    assert reloaded.intro == second_game.intro


def test_a_pool_prefers_the_library_that_holds_the_game():
    pool = LibraryPool()
    libraries = [pool.take(key) for key in ("a", "b", "c")]
    for library, key in zip(libraries, ("a", "b", "c")):
        library.key = key  # as if a game of that key were loaded
        pool.give_back(library)
    assert pool.take("b") is libraries[1]
    assert pool.take("x") is libraries[0], "the one that was given back first"
    assert pool.made == 3


def test_a_kept_game_needs_neither_textworld_nor_the_translator(folder):
    GameStore(POOL).load(tiny())
    code = """
import sys
from mage_envs.games.alfworld.engine import FastEngine
from tests.games.alfworld.engine.games import plan, tiny
engine = FastEngine()
engine.load(tiny())
engine.reset()
print([engine.step(command).won for command in plan(tiny())][-1])
print([name for name in ("textworld", "alfworld", "fast_downward", "tatsu") if name in sys.modules])
"""
    assert run_python(code, MAGE_ENVS_CACHE=str(folder.parent)).split() == ["True", "[]"]
