"""A game of this package is named in few files, and what plays a role is described by one class, seldom a Protocol."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache

import pytest

from mage_envs.opponents import list_opponents, opponent_info
from mage_envs.registry import opponent_modules
from tests.processes import ROOT

SMALL = ("Inspection", "Ultimatum", "Bargaining", "RockPaperScissors", "PrisonersDilemma")
MOST_FILES = 11
TABLES = ("docs/environments.md", "docs/opponents.md")
"""Pages with a table of games, which count; other pages are prose."""
MADE_OF_GAMES = ("mage_envs/games/encounters.py", "opponents/games/encounters.py")
HELP = ("benchmarks/commands/chaos.py", "benchmarks/evaluation/run/options.py", "trainer/cli/train.py")
"""Programs whose help has one game as its example."""
SUITE = (
    "benchmarks/evaluation/suites/adapt.py",
    "benchmarks/evaluation/suites/pool_texts.py",
    "dev/adapt_cells.py",
    "dev/adapt_learning.py",
)
"""Files of the suites `adapt` and `adapt-learning`, whose cells are fixed."""
OWN_TESTS = ("tests/games/", "tests/opponents/games/")
MOST_EXAMPLES = 2
"""Maximum number of the small games in a test that has them as examples."""


@cache
def patterns(game: str) -> str:
    """A pattern of the game's name, its opponents' and panels' names, and its modules."""
    prefixes = {name.partition("/")[0] for name in list_opponents(game) if opponent_info(name).games == (game,)}
    # Opponents without a prefix play any game, or several.
    (prefix,) = prefixes & opponent_modules().keys()
    module = re.sub(r"(?<!^)([A-Z])", r"_\1", game).lower()
    return rf"\b{game}\b|\b{prefix}/|\b{prefix}-(?:train|heldout)\b|\bgames[./](?:import )?{module}\b"


@cache
def read_tracked_files() -> dict[str, str]:
    """Every tracked text file outside results, goldens and examples, with its path as the first line."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    # An unpacked source archive has no list of tracked files.
    if listed.returncode != 0:
        pytest.skip("needs the repository")
    texts = {}
    for path in filter(None, listed.stdout.split("\0")):
        prose = path.endswith(".md") and path not in TABLES
        if prose or path.startswith(("examples/", "tests/examples/", "benchmarks/results/")):
            continue
        if path.startswith(("tests/golden/", "tests/test_golden.py")) or path.endswith("fingerprints.json"):
            continue
        if path in (*HELP, *MADE_OF_GAMES, *SUITE) or path == "tests/test_one_place.py" or not (ROOT / path).is_file():
            continue
        texts[path] = f"{path}\n{(ROOT / path).read_text(errors='ignore')}"
    return texts


@cache
def games_named_in(path: str) -> set[str]:
    """The small games that a file names."""
    return {game for game in SMALL if re.search(patterns(game), read_tracked_files()[path])}


def is_example(path: str) -> bool:
    return path.startswith("tests/") and not path.startswith(OWN_TESTS) and len(games_named_in(path)) <= MOST_EXAMPLES


@pytest.mark.parametrize("game", SMALL)
def test_few_files_name_a_game(game: str) -> None:
    """At most 11 tracked files name a shipped game.

    They are the list of games, the game, its opponents, its tests and those of its values, and the pages with tables of
    games, which `python -m dev.doc_tables` writes. A file names a game by its name, by a name of its opponents or
    panels, or by its module. These files do not count, because a new game changes none of them:

    * Results, examples/, the change log, and pages of prose, which mention games as examples.
    * Goldens: tests/golden with the script that plays them, and the panels' fingerprints.
    * Tests of something else that have one or two of the small games as examples. A test that names more of them is
      a list of games, and counts.
    * The three programs whose help has a game as an example.
    * Encounters, which is made of other games.
    * The suite `adapt`, whose cells are fixed.
    """
    files = [path for path in read_tracked_files() if game in games_named_in(path) and not is_example(path)]
    assert len(files) <= MOST_FILES, files


def test_a_list_of_games_counts() -> None:
    assert games_named_in("docs/environments.md") == set(SMALL)
    assert games_named_in("opponents/games/inspection.py") == {"Inspection"}
    assert games_named_in("opponents/builtin.py") == games_named_in("opponents/pools.py") == set()
    assert (
        games_named_in("benchmarks/evaluation/suites/panels.py")
        == games_named_in("benchmarks/exact/headroom_table.py")
        == set()
    )
    assert not is_example("tests/opponents/games/test_repeated_games.py")


PRODUCT = ("mage_envs", "opponents", "wrappers", "trainer", "benchmarks")
MOST_PROTOCOLS = 15
"""Maximum number of Protocols: each is for objects that strangers make without a base class."""


def protocols_of(source: str) -> list[str]:
    """The names of the Protocol classes in a module, whose bases are `Protocol`, `Protocol[T]` or `typing.Protocol`."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        and any(re.fullmatch(r"(\w+\.)?Protocol(\[.*\])?", ast.unparse(base)) for base in node.bases)
    ]


def test_few_classes_are_protocols() -> None:
    """A role of our own has one base class with methods that do nothing, which callers need not probe."""
    # Resolved, because links in mage_envs/ lead to the other folders.
    paths = {path.resolve() for folder in PRODUCT for path in (ROOT / folder).rglob("*.py")}
    assert len(paths) > 500
    names = [name for path in paths for name in protocols_of(path.read_text())]
    assert len(names) <= MOST_PROTOCOLS, names


def test_protocols_are_counted() -> None:
    source = "class A(Protocol): ...\nclass B(C, Protocol[T]): ...\nclass D:\n    class E(typing.Protocol): ...\n"
    assert protocols_of(source + "class F(ProtocolError): ...\nclass G(Generic[Protocol]): ...\n") == ["A", "B", "E"]
