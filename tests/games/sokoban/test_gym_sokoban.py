"""gym-sokoban's generator, and our rules against its dynamics; skipped where the extra is not installed."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from mage_envs.games.sokoban.game import Sokoban
from mage_envs.games.sokoban.gym_sokoban import load_room_utils
from mage_envs.games.sokoban.level import MOVES

installed = pytest.mark.skipif(find_spec("gym_sokoban") is None, reason="the extra gym-sokoban is not installed")


@pytest.mark.skipif(find_spec("gym_sokoban") is not None, reason="the extra gym-sokoban is installed")
def test_without_the_extra_the_error_names_it():
    with pytest.raises(ImportError, match=r'pip install "mage-envs\[gym-sokoban\]"'):
        load_room_utils()


@installed
def test_rooms_are_a_function_of_the_generator_and_within_the_bounds():
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    for seed in range(4):
        first_state, second_state = (
            Sokoban("gym-sokoban").initial_state(np.random.default_rng(seed)) for _ in range(2)
        )
        assert first_state.room.level == second_state.room.level
        assert 5 <= first_state.metrics()["distance_to_goal"] <= 21
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


class TheirDynamics:
    """`SokobanEnv.step` of gym-sokoban 0.0.6, pushes only, on its own two arrays; written after its code."""

    WAYS = ((-1, 0), (1, 0), (0, -1), (0, 1))

    def __init__(self, fixed, state):
        self.fixed, self.state = fixed.copy(), state.copy()
        self.player = np.argwhere(state == 5)[0]
        self.on_target = 0

    def step(self, way):
        change = np.array(self.WAYS[way])
        new, old = self.player + change, self.player.copy()
        beyond = new + change
        if self.state[tuple(new)] in (3, 4) and self.state[tuple(beyond)] in (1, 2):
            self.state[tuple(beyond)] = 3 if self.fixed[tuple(beyond)] == 2 else 4
            self._walk(old, new)
        elif self.state[tuple(new)] in (1, 2):
            self._walk(old, new)
        empty = ((self.state == 2) | ((self.fixed == 2) & (self.state == 5))).sum()
        num_on_target = (self.fixed == 2).sum() - empty
        reward = -0.1 + np.sign(num_on_target - self.on_target) + 10 * (empty == 0)
        self.on_target = num_on_target
        return float(reward), empty == 0

    def _walk(self, old, new):
        self.state[tuple(new)] = 5
        self.state[tuple(old)] = self.fixed[tuple(old)]
        self.player = new

    def text(self):
        rows = []
        for number, (fixed, state) in enumerate(zip(self.fixed, self.state), start=1):
            symbols = ["S" if f == 2 and s == 5 else "#_O√XP"[int(s)] for f, s in zip(fixed, state)]
            rows.append(f"Row {number}: {' '.join(symbols)}")
        return "\n".join(rows)


def arrays(level):
    """Their two arrays of a level."""
    fixed, state = (np.zeros((level.height, level.width)) for _ in range(2))
    for row in range(level.height):
        for column in range(level.width):
            cell = 1 << row * level.width + column
            fixed[row, column] = 2 if cell & level.targets else bool(cell & level.floor)
            state[row, column] = 5 if cell & level.player else 4 if cell & level.boxes else fixed[row, column]
    return fixed, state


@pytest.mark.parametrize("generator", ["retrograde", pytest.param("gym-sokoban", marks=installed)])
def test_the_rules_are_gym_sokobans(generator):
    rng = np.random.default_rng(0)
    for seed in range(30 if generator == "retrograde" else 5):
        state = Sokoban(generator, boxes=1 + seed % 3).initial_state(np.random.default_rng(seed))
        level = state.room.level
        path = state.room.search.path(level.boxes, level.player)
        theirs, total = TheirDynamics(*arrays(level)), 0.0
        solution = list(path or ())
        for _ in range(80):
            way = solution.pop(0) if seed % 2 and solution else int(rng.integers(4))
            reward, terminated = theirs.step(way)
            total += reward
            state = state.after(MOVES[way])
            assert state.observation(0).startswith(theirs.text())
            assert state.returns == (pytest.approx(total),)
            assert (state.player is None) == terminated
            if terminated:
                break


@installed
def test_the_dynamics_written_here_are_those_of_the_package(monkeypatch):
    """Compare with the class of the package itself. Fakes replace gym and drawing."""
    import sys
    from types import ModuleType

    class Space:
        def __init__(self, *args, **kwargs):
            pass

    faked = (
        "gym",
        "gym.utils",
        "gym.utils.seeding",
        "gym.spaces",
        "gym.spaces.discrete",
        "theirs",
        "theirs.render_utils",
        "theirs.room_utils",
    )
    fakes = {name: ModuleType(name) for name in faked}
    fakes["gym"].Env, fakes["gym.utils"].seeding = object, fakes["gym.utils.seeding"]
    fakes["gym.spaces.discrete"].Discrete = fakes["gym.spaces"].Box = Space
    fakes["theirs.render_utils"].room_to_rgb = fakes["theirs.render_utils"].room_to_tiny_world_rgb = lambda *a: None
    fakes["theirs.room_utils"].generate_room = None
    fakes["theirs"].__path__ = []
    for name, module in fakes.items():
        monkeypatch.setitem(sys.modules, name, module)
    folder = find_spec("gym_sokoban").submodule_search_locations[0]
    names = {"__name__": "theirs.sokoban_env", "__package__": "theirs"}
    with open(f"{folder}/envs/sokoban_env.py", encoding="utf-8") as file:
        exec(compile(file.read(), file.name, "exec"), names)
    rng = np.random.default_rng(1)
    for seed in range(10):
        level = Sokoban().initial_state(np.random.default_rng(seed)).room.level
        ours, theirs = TheirDynamics(*arrays(level)), names["SokobanEnv"](dim_room=(6, 6), num_boxes=2, reset=False)
        theirs.room_fixed, theirs.room_state = arrays(level)
        theirs.player_position, theirs.num_env_steps = np.argwhere(theirs.room_state == 5)[0], 0
        for _ in range(60):
            way = int(rng.integers(4))
            reward, terminated = ours.step(way)
            _, their_reward, their_done, _ = theirs.step(way + 1)
            assert (theirs.room_state == ours.state).all()
            assert (their_reward, their_done) == (pytest.approx(reward), terminated)
            if terminated:
                break
