"""A game of another package, installed and announced by an entry point, is the same game as by import."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packages import mark_params
from tests.processes import ROOT, run_python

GAME = """
from mage_envs import Game, GameSettings, GameSpec, IllegalAction, State, register_game, register_opponent

class Over(State):
    player, legal_actions, returns = None, (), (0.0, 0.0)

    def observation(self, seat):
        return "over"

    def information_state(self, seat):
        return ""

    def after(self, action):
        raise IllegalAction(action, ())

class Probe(Game):
    spec = GameSpec(name="Probe", rules="none", max_turns=1)

    def initial_state(self, rng):
        return Over()

SETTINGS = GameSettings(seat="first", invalid_penalty=3.0)
register_game("Probe", {entry_point}, settings={settings}, opponents={{"probe": "{package}_opponents"}})
"""
OPPONENTS = """
from mage_envs import register_opponent, register_pool

@register_opponent("probe/last", games=["Probe"])
class Last:
    def reset(self, rng):
        pass

    def act(self, turn):
        return turn.legal_actions[-1]

register_pool("probe/all", {"probe/last": 1.0})
"""
SETTINGS_OF = "from mage_envs.registry import settings_of; s = settings_of('Probe'); print(s.seat, s.invalid_penalty)"
MADE = """
import gymnasium as gym
env = gym.make("mage/Probe-Meta-v0", opponent="probe/last").unwrapped
print(env.settings.seat, env.settings.invalid_penalty)
"""
NAMED = """
from mage_envs import list_opponents, list_pools, load_game
assert "probe/all" in list_pools()
assert "probe/last" in list_opponents("Probe")
print(load_game("Probe").__name__)
"""


def install(folder: Path, announcement: str) -> None:
    info = folder / "probe-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: probe\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[mage_envs.games]\n{announcement}\n")


def run(folder: Path, code: str) -> str:
    process = run_python("-P", "-W", "error", "-c", f"import mage_envs\n{code}", folder=folder, path=(ROOT, folder))
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


@pytest.mark.parametrize(
    ("entry_point", "settings"),
    mark_params([('"probe:Probe"', "SETTINGS"), ('"probe:Probe"', '"probe:SETTINGS"'), ("Probe", "SETTINGS")], step=2),
)
@pytest.mark.parametrize("order", ["", "import probe\n"], ids=["announced", "imported"])
def test_it_keeps_its_settings_and_opponents(tmp_path: Path, entry_point: str, settings: str, order: str) -> None:
    (tmp_path / "probe.py").write_text(GAME.format(entry_point=entry_point, settings=settings, package="probe"))
    (tmp_path / "probe_opponents.py").write_text(OPPONENTS)
    install(tmp_path, "Probe = probe:Probe")
    assert run(tmp_path, order + SETTINGS_OF) == "first 3.0"
    assert run(tmp_path, order + MADE) == "first 3.0"
    assert run(tmp_path, order + NAMED) == "Probe"


def test_a_package_may_announce_a_class_that_it_imports(tmp_path: Path) -> None:
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe" / "__init__.py").write_text("from probe.rules import Probe\n")
    (tmp_path / "probe" / "rules.py").write_text(
        GAME.format(entry_point="Probe", settings="SETTINGS", package="probe.rules")
    )
    (tmp_path / "probe" / "rules_opponents.py").write_text(OPPONENTS)
    install(tmp_path, "Probe = probe:Probe")
    assert run(tmp_path, SETTINGS_OF) == "first 3.0"
    assert run(tmp_path, NAMED) == "Probe"


def test_a_game_without_settings_has_those_of_any_game(tmp_path: Path) -> None:
    text = GAME.format(entry_point="Probe", settings="None", package="probe")
    (tmp_path / "probe.py").write_text(text)
    install(tmp_path, "Probe = probe:Probe")
    assert run(tmp_path, SETTINGS_OF) == "None 0.5"


def test_another_package_cannot_take_an_announced_name(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(GAME.format(entry_point="Probe", settings="SETTINGS", package="other"))
    install(tmp_path, "Probe = probe:Probe")
    process = run_python("-P", "-c", "import other", folder=tmp_path, path=(ROOT, tmp_path))
    assert "Game 'Probe' is already registered as probe:Probe; choose another name for other:Probe." in process.stderr


@pytest.mark.parametrize("announcement", ["my-probe = probe:Probe", "Probe = probe"])
def test_a_bad_announcement_is_a_warning(tmp_path: Path, announcement: str) -> None:
    install(tmp_path, announcement)
    code = "import mage_envs; print('KuhnPoker' in mage_envs.list_games(), 'Probe' in mage_envs.list_games())"
    process = run_python("-P", "-c", code, folder=tmp_path, path=(ROOT, tmp_path))
    assert process.stdout.split()[0] == "True", process.stderr
    assert "Games of package 'probe' (probe" in process.stderr


def test_a_class_that_its_module_lacks_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text("")
    install(tmp_path, "Probe = probe:Probe")
    with_error = "try:\n    mage_envs.load_game('Probe')\nexcept ImportError as error:\n    print(error)"
    assert run(tmp_path, with_error) == "probe:Probe: the module has no 'Probe'."
