"""Any defect of a game file gives one error, and the error names the file."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import pytest

from mage_envs.games.alfworld.engine import FastEngine
from mage_envs.games.alfworld.errors import GameFileError
from mage_envs.games.alfworld.game import StockEngine
from tests.games.alfworld.engine.games import ROOT, needs_engine, tiny

pytestmark = needs_engine

UNREADABLE = {
    "empty": b"",
    "no JSON": b"hello",
    "binary": bytes(range(256)),
    "a list": b"[]",
    "null": b"null",
    "nested": b"[" * 100_000,
    "no keys": b"{}",
    "numbers": json.dumps({"pddl_domain": 1, "pddl_problem": 2, "grammar": 3}).encode(),
}


@pytest.mark.parametrize("engine", [FastEngine, StockEngine])
@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable_files(tmp_path, engine, content):
    path = tmp_path / "game.tw-pddl"
    path.write_bytes(content)
    with pytest.raises(GameFileError, match="is not a playable ALFWorld game") as caught:
        engine().load(path)
    assert caught.value.path == str(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("engine", [FastEngine, StockEngine])
def test_missing_files_and_folders(tmp_path, engine):
    for path, cause in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(GameFileError, match=cause):
            engine().load(str(path))


def change_text(key, old, new):
    game = tiny()
    text = str(game[key])
    assert old in text
    return {**game, key: text.replace(old, new)}


def with_goal(goal):
    problem = str(tiny()["pddl_problem"])
    return {**tiny(), "pddl_problem": f"{problem[: problem.index('(:goal')]}(:goal {goal}))"}


BROKEN = {
    "truncated problem": lambda: {**tiny(), "pddl_problem": str(tiny()["pddl_problem"])[:900]},
    "truncated domain": lambda: {**tiny(), "pddl_domain": str(tiny()["pddl_domain"])[:900]},
    "no PDDL": lambda: {**tiny(), "pddl_problem": "nonsense"},
    "another domain": lambda: {**tiny(), "pddl_domain": "(define (domain x))"},
    "truncated grammar": lambda: {**tiny(), "grammar": str(tiny()["grammar"])[:1000]},
    "no grammar": lambda: {**tiny(), "grammar": "hello"},
    "undeclared object": lambda: change_text("pddl_problem", "(:init", "(:init (openable ghost_bar_1)"),
}
ONLY_FAST = {
    "goal out of reach": (lambda: with_goal("(openable agent1)"), "its goal can never be reached"),
    "long names": (lambda: change_text("pddl_problem", "agent1", "a" * 1200), "names of 1024 characters"),
    "an action without words": (lambda: change_text("grammar", "action help", "action hilfe"), "no action 'help'"),
    "a missing rule": (lambda: change_text("grammar", '"list_empty"', '"none"'), "no rule 'list_empty'"),
    "an unknown type": (lambda: change_text("grammar", "r:receptacle", "r:cupboard"), "KeyError: 'cupboard'"),
    "a rule that needs itself": (
        lambda: change_text("grammar", "Your task is to", "#task# Your task is to"),
        "needs itself",
    ),
    "code": (lambda: change_text("grammar", "{r.name or r.id}", "{__import__('os').getcwd()}"), "is not supported"),
    "private attributes": (lambda: change_text("grammar", "{r.name or r.id}", "{r.__class__}"), "is not supported"),
    "no expression": (lambda: change_text("grammar", "{r.name or r.id}", "{r.name or}"), "cannot parse the expression"),
    "a command that depends on the state": (
        lambda: change_text("grammar", '"open {r}"', '"open [{o.name | inreceptacle(o:object, r:receptacle)}]"'),
        "depends on facts that change",
    ),
}


@pytest.mark.parametrize("engine", [FastEngine, StockEngine])
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_broken_games(engine, broken):
    with pytest.raises(GameFileError, match="The given mapping is not a playable ALFWorld game: .+"):
        engine().load(broken())


@pytest.mark.parametrize(("broken", "cause"), ONLY_FAST.values(), ids=ONLY_FAST)
def test_games_that_the_fast_engine_refuses_before_they_start(broken, cause):
    with pytest.raises(GameFileError, match=cause):
        FastEngine().load(broken())


def test_an_engine_plays_on_after_a_bad_game():
    engine = FastEngine()
    engine.load(tiny())
    first_state = engine.reset()
    with pytest.raises(GameFileError):
        engine.load({})
    assert engine.reset() == first_state
    engine.close()


def test_a_goal_that_holds_at_the_start_shows_at_the_start():
    problem = str(tiny()["pddl_problem"])
    start = problem[problem.index("(atLocation") :].partition(")")[0] + ")"
    engine = FastEngine()
    engine.load(with_goal(f"(and {start})"))
    assert engine.reset().won
    engine.close()


def test_the_error_crosses_processes():
    error = pickle.loads(pickle.dumps(GameFileError("file", "cause")))
    assert str(error) == "file is not a playable ALFWorld game: cause."


@pytest.mark.parametrize("engine", ["engine.FastEngine", "game.StockEngine"])
@pytest.mark.parametrize("package", ["textworld", "fast_downward"])
def test_a_missing_engine_is_named_with_the_remedy(engine, package):
    module, name = engine.split(".")
    code = f"""
import importlib.metadata, importlib.util, sys
sys.modules[{package!r}] = None
find, version = importlib.util.find_spec, importlib.metadata.version
def without(name, package=None):
    if name == {package!r}: return None
    return find(name, package)
def unversioned(name):
    if name.startswith({package.replace("_", "-")!r}): raise importlib.metadata.PackageNotFoundError(name)
    return version(name)
importlib.util.find_spec, importlib.metadata.version = without, unversioned
from mage_envs.games.alfworld.{module} import {name}
try:
    {name}().load({{"pddl_domain": "(d)", "pddl_problem": "(p)", "grammar": "g"}})
except ImportError as error:
    print(error)
"""
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert 'pip install "mage-envs[alfworld]"' in process.stdout, process.stderr
    assert "build-essential" in process.stdout
    assert "command named python on PATH" in process.stdout
