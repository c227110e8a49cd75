"""Registration, lookup, arguments, import strings, plug-ins, and the exact text of every error."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mage_envs import opponents
from mage_envs.core import Turn
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.tictactoe import TicTacToe
from mage_envs.loading import plugins
from mage_envs.loading.imports import describe_search_path
from mage_envs.opponents import (
    RulePolicy,
    UnknownOpponent,
    list_opponents,
    make_opponent,
    opponent_info,
    register_opponent,
    registry,
    split_names,
)


class AlwaysFirst:
    """A custom opponent as a user writes it: no base class."""

    def __init__(self, depth: int = 3, *words: str) -> None:
        self.depth = depth
        self.words = words

    def reset(self, rng: np.random.Generator) -> None: ...

    def act(self, turn: Turn) -> str:
        return turn.legal_actions[0]


class Other(AlwaysFirst):
    """Another one."""


def no_policy() -> int:
    return 3


NOT_CALLABLE = 3


@pytest.fixture(autouse=True)
def restore_registry() -> Iterator[None]:
    """Puts the registry back after each test."""
    # A module that a test were the first to import would register its names for that test alone.
    registry.load_all_opponents()
    registry_before = dict(registry._REGISTRY)
    yield
    registry._REGISTRY.clear()
    registry._REGISTRY.update(registry_before)


@pytest.fixture
def kuhn() -> KuhnPoker:
    return KuhnPoker()


def raises(kind: type[Exception], text: str) -> pytest.RaisesExc[Exception]:
    return pytest.raises(kind, match=f"^{re.escape(text)}$")


def test_the_public_surface() -> None:
    assert sorted(opponents.__all__) == opponents.__all__
    assert all(hasattr(opponents, name) for name in opponents.__all__)
    assert set(opponents.__all__) <= set(dir(opponents))


def test_importing_loads_no_solver() -> None:
    names = "('pyspiel', 'open_spiel', 'torch')"
    code = f"import sys, mage_envs.opponents.exact; print([m for m in {names} if m in sys.modules])"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert process.stdout.strip() == "[]", process.stderr


def test_names_by_game() -> None:
    assert {"uniform", "cfr", "cfr-argmax", "kuhn/nash", "kuhn/rock"} <= set(list_opponents("KuhnPoker"))
    assert {"uniform", "mcts", "minimax", "tictactoe/pattern-6"} <= set(list_opponents("TicTacToe"))
    assert not {"mcts", "minimax"} & set(list_opponents("KuhnPoker"))
    assert list_opponents("Nim") == ("uniform",)
    assert list(list_opponents(None)) == sorted(list_opponents())


def test_a_class_a_function_and_a_string_register(kuhn: KuhnPoker) -> None:
    assert register_opponent("mine/class", games=["KuhnPoker"])(AlwaysFirst) is AlwaysFirst
    register_opponent("mine/function")(partial(AlwaysFirst, 5))
    register_opponent("mine/string", entry_point="mage_envs.opponents.games.kuhn:nash", games=["KuhnPoker"])
    assert isinstance(make_opponent("mine/class", kuhn), AlwaysFirst)
    assert make_opponent("mine/function", kuhn).depth == 5  # type: ignore[attr-defined]
    assert isinstance(make_opponent("mine/string:0.1", kuhn), RulePolicy)
    assert "mine/class" not in list_opponents("TicTacToe")


def test_arguments_are_converted_by_annotation(kuhn: KuhnPoker) -> None:
    register_opponent("mine/class")(AlwaysFirst)
    policy = make_opponent("mine/class:7,a,b", kuhn)
    assert isinstance(policy, AlwaysFirst)
    assert (policy.depth, policy.words) == (7, ("a", "b"))


def test_games_that_grow_are_seen_growing() -> None:
    games = {"Nim": 1}
    register_opponent("mine/growing", games=games)(AlwaysFirst)
    assert "mine/growing" not in list_opponents("Hex")
    games["Hex"] = 2
    assert "mine/growing" in list_opponents("Hex")


def test_a_policy_passes_through(kuhn: KuhnPoker) -> None:
    policy = AlwaysFirst()
    assert make_opponent(policy, kuhn) is policy


def test_named_opponents_are_new_each_time(kuhn: KuhnPoker) -> None:
    assert all(make_opponent(name, kuhn) is not make_opponent(name, kuhn) for name in list_opponents("KuhnPoker"))


def test_module_and_class(kuhn: KuhnPoker) -> None:
    assert isinstance(make_opponent(f"{__name__}:AlwaysFirst", kuhn), AlwaysFirst)
    assert make_opponent(f"{__name__}:AlwaysFirst:9", kuhn).depth == 9  # type: ignore[attr-defined]


def test_a_module_and_class_is_checked_like_a_registered_name() -> None:
    assert make_opponent("mage_envs.opponents.search.mcts:MCTS:7", TicTacToe()).simulations == 7  # type: ignore[attr-defined]
    with raises(
        ValueError,
        "Opponent 'mage_envs.opponents.search.mcts:MCTS' plays Breakthrough or ConnectFour or OpenSpiel or "
        "TicTacToe, not KuhnPoker. "
        'list_opponents("KuhnPoker") returns the names that fit.',
    ):
        make_opponent("mage_envs.opponents.search.mcts:MCTS", KuhnPoker())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("kuhn/nash, uniform", ["kuhn/nash", "uniform"]),
        ("ultimatum/soft-reserve:3,.2", ["ultimatum/soft-reserve:3,.2"]),
        ("ultimatum/soft-reserve:3,.2,uniform,mcts:5", ["ultimatum/soft-reserve:3,.2", "uniform", "mcts:5"]),
        ("switch:kuhn/rock,kuhn/maniac,1,kuhn/nash", ["switch:kuhn/rock,kuhn/maniac,1", "kuhn/nash"]),
        ("switch:kuhn/rock,kuhn/maniac,1;kuhn/nash", ["switch:kuhn/rock,kuhn/maniac,1", "kuhn/nash"]),
        ("my_games:Cycle:2,wfw/always-water", ["my_games:Cycle:2", "wfw/always-water"]),
        ("kuhn/agressive,uniform", ["kuhn/agressive", "uniform"]),
    ],
)
def test_a_comma_separates_names_and_arguments(text: str, names: list[str]) -> None:
    assert list(split_names(text)) == names


def test_alias(kuhn: KuhnPoker) -> None:
    info = opponent_info("kuhn/rock")
    assert info.alias_of == "kuhn/conservative"
    assert info.builder == opponent_info("kuhn/conservative").builder
    assert info.games == ("KuhnPoker",)


def test_a_name_of_a_game_s_own_opponents_is_taken_before_they_are_loaded() -> None:
    code = """
from mage_envs import opponents
@opponents.register_opponent("inspect/greedy")
def mine(): ...
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.stderr.endswith(
        "ValueError: Opponent 'inspect/greedy' is already registered, by mage_envs.opponents.games.inspection:greedy. "
        "Choose another name for __main__:mine.\n"
    )


def test_a_path_to_a_builder_of_a_game_finds_its_registration() -> None:
    code = """
from mage_envs import make_game, make_opponent
print(type(make_opponent("mage_envs.opponents.games.liars_dice:tight", make_game("LiarsDice"))).__name__)
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout == "RulePolicy\n"


def test_the_same_again_is_fine_another_is_not() -> None:
    register_opponent("mine/twice")(AlwaysFirst)
    register_opponent("mine/twice")(AlwaysFirst)
    with raises(
        ValueError,
        f"Opponent 'mine/twice' is already registered, by {__name__}:AlwaysFirst. "
        f"Choose another name for {__name__}:Other.",
    ):
        register_opponent("mine/twice")(Other)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            "kuhn/agressive",
            "Unknown opponent 'kuhn/agressive'. Did you mean 'kuhn/aggressive'? "
            'list_opponents("KuhnPoker") returns all names.',
        ),
        (
            "minimx",
            "Unknown opponent 'minimx'. Did you mean 'minimax'? list_opponents(\"KuhnPoker\") returns all names.",
        ),
        ("mtcs:100", "Unknown opponent 'mtcs'. Did you mean 'mcts'? list_opponents(\"KuhnPoker\") returns all names."),
        ("zzzz", "Unknown opponent 'zzzz'. list_opponents(\"KuhnPoker\") returns all names."),
        (
            "no_such_module:Bot",
            "Unknown opponent 'no_such_module'. list_opponents(\"KuhnPoker\") returns all names. "
            f"There is no module 'no_such_module' either. Searched: {describe_search_path()}.",
        ),
        (
            "mage_envs.opponents.games.kuhn:Bot",
            "Unknown opponent 'mage_envs.opponents.games.kuhn:Bot': the module has no 'Bot'; name a class in it.",
        ),
        ("", "Unknown opponent ''. list_opponents(\"KuhnPoker\") returns all names."),
    ],
)
def test_unknown_names(kuhn: KuhnPoker, spec: str, text: str) -> None:
    with raises(UnknownOpponent, text):
        make_opponent(spec, kuhn)


def test_unknown_without_a_game() -> None:
    with raises(
        UnknownOpponent, "Unknown opponent 'unifrm'. Did you mean 'uniform'? list_opponents() returns all names."
    ):
        opponent_info("unifrm")


def test_the_wrong_game() -> None:
    with raises(
        ValueError,
        "Opponent 'kuhn/nash' plays KuhnPoker, not TicTacToe. "
        'list_opponents("TicTacToe") returns the names that fit.',
    ):
        make_opponent("kuhn/nash", TicTacToe())
    with pytest.raises(ValueError, match=r"^Opponent 'cfr' plays KuhnPoker or .*, not TicTacToe\."):
        make_opponent("cfr", TicTacToe())


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("kuhn/aggressive:0.3", "Opponent 'kuhn/aggressive:0.3' takes no arguments after the colon, got 1."),
        ("kuhn/nash:.1,.2", "Opponent 'kuhn/nash:.1,.2' takes at most 1 (alpha) after the colon, got 2."),
        ("kuhn/nash:a", "Opponent 'kuhn/nash:a': alpha must be a number, got 'a'."),
        ("kuhn/nash:0.5", "Opponent 'kuhn/nash': alpha must be in [0, 1/3], got 0.5."),
        ("kuhn/nash:nan", "Opponent 'kuhn/nash:nan': alpha must be a number, got 'nan'."),
        ("cfr:", "Opponent 'cfr:' has an empty argument. Complete it, or remove the ':' or ',' before it."),
        ("cfr:1e3", "Opponent 'cfr:1e3': iterations must be a whole number, got '1e3'."),
        ("cfr:0", "Opponent 'cfr': iterations must be from 1 to 1,000,000, got 0."),
        ("needs", "Opponent 'needs' needs depth. Add arguments after a colon, as in 'needs:depth'."),
        (
            "pool:kuhn/demo",
            "'pool:kuhn/demo' is a pool, not one opponent. Draw one with as_pool('pool:kuhn/demo').draw(rng).",
        ),
    ],
)
def test_bad_arguments(kuhn: KuhnPoker, spec: str, text: str) -> None:
    @register_opponent("needs")
    def needs(depth: int) -> AlwaysFirst:
        return AlwaysFirst(depth)

    with raises(ValueError, text):
        make_opponent(spec, kuhn)


def test_what_is_no_policy(kuhn: KuhnPoker) -> None:
    with raises(TypeError, "Opponent AlwaysFirst is a class. Pass an instance of it: AlwaysFirst()."):
        make_opponent(AlwaysFirst, kuhn)  # type: ignore[arg-type]
    with raises(TypeError, "Opponent 'int' must be a policy with reset(rng) and act(turn), got int."):
        make_opponent(3, kuhn)  # type: ignore[arg-type]
    with raises(TypeError, f"'{__name__}:no_policy' must be an opponent, a class with reset, act; got function."):
        make_opponent(f"{__name__}:no_policy", kuhn)
    with raises(TypeError, f"'{__name__}:NOT_CALLABLE' must be an opponent, a class with reset, act; got int."):
        make_opponent(f"{__name__}:NOT_CALLABLE", kuhn)


@pytest.mark.parametrize("name", ["", "a:b", "a,b", "a b", "pool"])
def test_bad_names(name: str) -> None:
    with pytest.raises(ValueError, match="is not free to use"):
        register_opponent(name)(AlwaysFirst)


def test_games_is_a_collection() -> None:
    with raises(TypeError, "Opponent 'x': games='Nim' must be a collection of names: games=['Nim']."):
        register_opponent("x", games="Nim")
    with pytest.raises(TypeError, match="must be a class or a function, got int"):
        register_opponent("x")(3)  # type: ignore[type-var]


def test_an_import_error_inside_a_module_stays_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kuhn: KuhnPoker
) -> None:
    (tmp_path / "bots_that_need_more.py").write_text("import a_dependency_that_is_missing\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="imports 'a_dependency_that_is_missing', which is not installed"):
        make_opponent("bots_that_need_more:Bot", kuhn)


def announce(folder: Path, package: str, lines: str) -> None:
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[mage_envs.opponents]\n{lines}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages, and plug-ins not looked for yet."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "_begun", set())
    plugins.find_entry_points.cache_clear()
    yield tmp_path
    plugins.find_entry_points.cache_clear()


PLUGIN = """
from mage_envs.opponents import list_opponents, register_opponent
list_opponents()   # a plug-in may look at what there is

@register_opponent("plugged/first", games=["KuhnPoker"])
class First:
    def reset(self, rng): ...
    def act(self, turn): return turn.legal_actions[0]
"""


def test_plugins_load_on_a_miss(site: Path, kuhn: KuhnPoker) -> None:
    (site / "good_plugin.py").write_text(PLUGIN)
    announce(site, "good-plugin", "good = good_plugin")
    make_opponent("kuhn/maniac", kuhn)
    assert "good_plugin" not in sys.modules
    assert type(make_opponent("plugged/first", kuhn)).__name__ == "First"
    assert "plugged/first" in list_opponents("KuhnPoker")


def test_a_broken_plugin_warns_once_and_names_its_package(site: Path) -> None:
    (site / "broken_plugin.py").write_text("raise RuntimeError('out of cheese')\n")
    announce(site, "broken-plugin", "broken = broken_plugin")
    with pytest.warns(UserWarning, match="broken-plugin.*RuntimeError: out of cheese.*Update or uninstall it"):
        assert "uniform" in list_opponents()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list_opponents()
