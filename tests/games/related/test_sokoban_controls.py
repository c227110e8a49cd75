"""SokobanControls: rules, exact values against a second solver, players against exact values."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations, product
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mage_envs import IllegalAction, make_game
from mage_envs.benchmarks.evaluation.run.agents import GeneratorAgent, PolicyAgent, make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.scoring.scores import summarise
from mage_envs.benchmarks.evaluation.suites.adapt import CELLS
from mage_envs.benchmarks.evaluation.suites.panels import named_panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.exact.recorded_generator import WatchedGenerator
from mage_envs.benchmarks.scale.adaptation import CellValues, exact_values
from mage_envs.cli.program import main
from mage_envs.games.sokoban.controls import KEYS, SPLITS, WIRINGS, SokobanControls, directions_of
from mage_envs.games.sokoban.level import MOVES
from mage_envs.opponents import as_pool
from mage_envs.opponents.exact import headroom
from mage_envs.opponents.solo.wirings import ALL, RoomValues, canonical
from mage_envs.random.streams import Streams
from tests.contract import check_id
from tests.games.sokoban.forward import WAYS, State, move, shortest, start


def rooms(count: int, **options: Any):
    return SokobanControls(**options).rooms(np.random.default_rng(7), count)


class SecondSolver:
    """Success by recursion over coordinates and a list of wirings, without symmetry and without bit masks."""

    def __init__(self, level) -> None:
        self.floor, self.targets, self.first = start(level)
        self.distances = self._distances()
        self.known: dict[tuple[State, int, tuple[tuple[int, ...], ...]], float] = {}

    def _distances(self) -> Mapping[State, int]:
        """Moves to the solved board, by repeated relaxation over everything that can be reached."""
        reached, waiting = {self.first}, [self.first]
        while waiting:
            state = waiting.pop()
            for way in WAYS:
                next_state = move(self.floor, state, way)
                if next_state not in reached:
                    reached.add(next_state)
                    waiting.append(next_state)
        needed = {state: 0 for state in reached if state[1] == self.targets}
        while True:
            next_layer = {
                state: 1
                + min(needed[next_state] for way in WAYS if (next_state := move(self.floor, state, way)) in needed)
                for state in reached - needed.keys()
                if any(move(self.floor, state, way) in needed for way in WAYS)
            }
            if not next_layer:
                return needed
            needed |= next_layer

    def value(self, state: State, moves_left: int, wirings: tuple[tuple[int, ...], ...]) -> float:
        if self.distances.get(state, 99) > moves_left:
            return 0.0
        if state[1] == self.targets:
            return 1.0
        situation = state, moves_left, wirings
        if situation not in self.known:
            best = 0.0
            for key in range(4):
                successors: dict[State, list[tuple[int, ...]]] = {}
                for wiring in wirings:
                    successors.setdefault(move(self.floor, state, WAYS[wiring[key]]), []).append(wiring)
                total = sum(
                    len(consistent) * self.value(then, moves_left - 1, tuple(consistent))
                    for then, consistent in successors.items()
                )
                best = max(best, total / len(wirings))
            self.known[situation] = best
        return self.known[situation]


@pytest.mark.parametrize("slack", [0, 1, 2])
def test_the_solver_agrees_with_a_second_one_on_fifty_rooms(slack: int) -> None:
    all_wirings = tuple(permutations(range(4)))
    game = SokobanControls(slack=slack)
    for room in rooms(50):
        level = room.level
        second = SecondSolver(level)
        keys = game.keys(room)
        assert shortest(level, 9) == keys - slack
        room_value = RoomValues(room).value(level.boxes, level.player, keys, canonical(ALL))
        assert room_value == pytest.approx(second.value(second.first, keys, all_wirings), abs=1e-12)


@pytest.mark.parametrize("seeds", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_room_comes_twice_and_the_splits_are_disjoint(seeds: int) -> None:
    levels_by_split = {}
    for split in SPLITS:
        game = SokobanControls(split=split)
        levels_by_split[split] = set()
        for seed in range(seeds):
            series = [room.level for room in game.rooms(Streams(seed).at(0).generator(), 3)]
            levels = [game.errand(Streams(seed).at(0).generator(), number).level for number in range(3)]
            assert len(set(levels)) == 3
            assert levels == series
            levels_by_split[split].update(levels)
    assert not levels_by_split["train"] & levels_by_split["eval"]


def test_an_episode_alone_is_that_of_the_series() -> None:
    env = gym.make("mage/SokobanControls-v0", opponent="controls:udlr")
    game = make_game("SokobanControls")
    for seed in range(20):
        for episode in (2, 0, 1):
            observation, _ = env.reset(seed=seed, options={"episode": episode})
            rng = env.unwrapped._streams.at(0).generator()
            assert observation == game.series_state(rng, episode).after("udlr").observation(0)


def test_every_room_is_solved_under_every_wiring() -> None:
    for slack in (0, 2):
        game = SokobanControls(slack=slack)
        for room in rooms(20):
            path = room.search.path(room.level.boxes, room.level.player)
            for wiring in WIRINGS:
                state = game.begin(room, wiring)
                for way in path:
                    state = state.after(KEYS[directions_of(wiring).index(way)])
                assert (state.won(0), state.returns, state.left) == (True, (1.0,), slack)


def test_nothing_before_the_first_answer_depends_on_the_wiring() -> None:
    game = SokobanControls()
    for seed in range(300):
        first_state = game.series_state(np.random.default_rng(seed), seed % 3)
        texts = {
            (first_state.after(w).observation(0), str({**first_state.after(w).info(0), "metrics": 0})) for w in WIRINGS
        }
        assert len(texts) == 1
    envs = [gym.make("mage/SokobanControls-Meta-v0", opponent=f"controls:{w}") for w in ("udlr", "rlud")]
    for seed in range(20):
        assert len({env.reset(seed=seed)[0] for env in envs}) == 1


def test_the_rules() -> None:
    room = rooms(1)[0]
    state = SokobanControls(slack=2).begin(room, "lrud")
    total = state.left
    assert state.observation(0).endswith(f"Keys left: {total}")
    several = state.after("A,b , c")
    assert several.left == total - 3
    assert several.observation(0) == state.after("a").after("b").after("c").observation(0)
    # The information state has the effect of each key, the observation only the last board.
    words = several.information_state(0).split()[-3:]
    moves = dict(word.split(":") for word in words)
    assert all(effect in ("nothing", MOVES[directions_of("lrud")[KEYS.index(key)]]) for key, effect in moves.items())
    for wrong in ("e", "", "a, a, a, a", "up", "a b", "a" * 500):
        with pytest.raises(IllegalAction):
            state.after(wrong)
    while state.player is not None:
        state = state.after("a")
    assert (state.left, state.won(0)) == (0, False)
    assert state.observation(0).endswith("The level is not solved, and no key is left.")
    text = "In all rooms, key a moves left, key b moves right, key c moves up and key d moves down."
    assert SokobanControls().describe("lrud") == text
    for options in ({"slack": -1}, {"split": "test"}, {"min_moves": 9, "max_moves": 5}):
        with pytest.raises(ValueError, match=r"slack|split|min_moves"):
            SokobanControls(**options)
    with pytest.raises(ValueError, match="'up' is unknown"):
        gym.make("mage/SokobanControls-v0", opponent="controls:up")


def test_the_contract() -> None:
    check_id("mage/SokobanControls-v0", opponent="controls:dlur", slack=0)


@pytest.fixture(scope="module")
def solutions():
    """Exact values at slack 2 and slack 0, for fewer rooms than the command has."""
    patch = pytest.MonkeyPatch()
    patch.setattr("mage_envs.opponents.solo.key_learner.ROOMS", 12)
    yield {slack: headroom(SokobanControls(slack=slack), "pool:controls/all") for slack in (2, 0)}
    patch.undo()


def test_the_values_of_the_optimal_learners(solutions) -> None:
    assert solutions[2].known == solutions[0].known == 1.0
    assert 0.25 <= solutions[2].blind <= 0.45
    assert 0.03 <= solutions[0].blind <= 0.08
    for values in solutions.values():
        # No memory helps in the first episode, and no learner beats the one that is best for it.
        assert values.per_episode["myopic"][0] == pytest.approx(values.blind, abs=1e-12)
        for credit in ("sum", "mage", "last"):
            assert values.per_episode[credit][0] <= values.blind + 1e-12
            assert values.per_episode[credit][2] >= values.per_episode["myopic"][2] - 1e-12
        assert sum(values.per_episode["sum"]) >= max(map(sum, values.per_episode.values())) - 1e-9
    assert solutions[0].exploration >= 0.2
    assert solutions[2].per_episode["last"][2] > 0.99


def test_headroom_is_for_all_wirings_alone(capsys) -> None:
    assert main(["headroom", "SokobanControls", "--hands", "2"]) == 2
    assert "one hand per episode" in capsys.readouterr().err
    from mage_envs.core import NotEnumerable

    with pytest.raises(NotEnumerable, match="controls/all"):
        headroom(SokobanControls(), {"controls:udlr": 1.0})
    assert len(as_pool("pool:controls/all")) == 24


def test_the_players() -> None:
    """Known wins always, memory wins with the third room, a wrong memory is at or below none."""
    # A third of the wirings, which keeps all rotations.
    tasks = [task for task in named_panel("controls-related-16").tasks() if WIRINGS.index(task.opponent[-4:]) % 3 == 0]
    rows = {}
    for slack in (2, 0):
        setting = Setting(named_panel("controls-related-16"), "x", {"slack": slack, "reveal_opponent": True})
        for name in ("blind", "memory", "explorer", "known", "wrong"):
            trajectories = evaluate(make_agent(f"policy:controls/{name}"), tasks, setting.options)
            overall = summarise(trajectories, SokobanControls(slack=slack)).overall
            rows[slack, name] = [episode.success.estimate.mean for episode in overall.episodes]
            assert not overall.failures
    assert len(tasks) == 24
    for slack in (2, 0):
        assert rows[slack, "known"] == pytest.approx([1.0] * 3)
        assert len(set(rows[slack, "blind"])) == 1, "rotations give every episode the same rooms"
        assert rows[slack, "memory"][0] == rows[slack, "blind"][0]
        assert rows[slack, "wrong"][2] <= rows[slack, "blind"][2]
    assert rows[2, "memory"][2] > 0.97
    assert rows[0, "explorer"][2] > rows[0, "memory"][2] + 0.1
    with pytest.raises(RuntimeError, match="reveal_opponent=True"):
        evaluate(make_agent("policy:controls/known"), tasks[:1], {"split": "eval"})


def test_the_blind_player_plays_its_exact_value() -> None:
    """Over all wirings, the success of the blind player in a room is the room's value."""
    game = SokobanControls(split="eval")
    tasks = [task for task in named_panel("controls-related-16").tasks() if task.rotation == 0]
    trajectories = evaluate(make_agent("policy:controls/blind"), tasks, {"split": "eval", "num_episodes": 1})
    env = gym.make("mage/SokobanControls-v0", split="eval", opponent="controls:udlr")
    env.reset(seed=tasks[0].seed)
    room = env.unwrapped.hand.state.own.room
    value = RoomValues(room).value(room.level.boxes, room.level.player, game.keys(room), canonical(ALL))
    assert np.mean([trajectory.episodes[0].success for trajectory in trajectories]) == pytest.approx(value, abs=1e-12)


class Careless:
    """Two keys at once in the first room, answers that are none in the second one, single keys in the third one."""

    def reset(self, rng):
        pass

    def act(self, turn):
        return ("a, b", "nothing", "c")[turn.episode]


@pytest.mark.parametrize("rooms", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_player_bayes_and_the_prices_of_decisions_are_exact(rooms: int, monkeypatch) -> None:
    """Over all wirings and all series of the rooms of the exact values, each of which may come again."""
    cell = CELLS["keys"]
    two_rooms = SokobanControls(**cell.options).rooms(np.random.default_rng(7), rooms)
    # Every room counts twice, because a standard error needs two rooms.
    monkeypatch.setattr("mage_envs.opponents.solo.key_learner.ROOMS", 2 * rooms)
    monkeypatch.setattr(SokobanControls, "rooms", lambda self, rng, count: two_rooms * 2)
    cell_values = exact_values(cell)
    # One task for each wiring. The rooms of the series replace those of its seed.
    tasks = [task for task in named_panel("controls-related-16").tasks() if task.rotation == 0]
    assert len({task.opponent for task in tasks}) == len(tasks) == 24
    options = {**cell.options, "memory": "none"}
    values = CellValues("mage/SokobanControls-Meta-v0", options, dict.fromkeys([task.opponent for task in tasks], 1.0))
    agents = {name: make_agent(cell.agent(name)) for name in ("bayes", "myopic")}
    agents["careless"] = PolicyAgent(lambda game: Careless(), "careless")
    paid, adjusted = {name: [] for name in agents}, {name: [] for name in agents}
    for errands in product(two_rooms, repeat=3):
        monkeypatch.setattr(SokobanControls, "errand", lambda self, rng, number, errands=errands: errands[number])
        for name, agent in agents.items():
            watched = WatchedGenerator.of(agent, SokobanControls(**cell.options), scored=False)
            trajectories = evaluate(GeneratorAgent(watched, name), tasks, options, batch=24)
            paid[name] += [[episode.value for episode in trajectory.episodes] for trajectory in trajectories]
            adjusted[name] += [
                values.of(trajectory, watched.seen[slot, 0]).total for slot, trajectory in enumerate(trajectories)
            ]
    assert len(paid["bayes"]) == rooms**3 * 24
    assert np.mean(paid["bayes"], axis=0) == pytest.approx(cell_values.per_episode["sum"], abs=1e-9)
    assert adjusted["bayes"] == pytest.approx([sum(cell_values.per_episode["sum"])] * len(adjusted["bayes"]), abs=1e-9)
    for name in agents:
        assert np.mean(adjusted[name]) == pytest.approx(np.sum(paid[name]) / len(paid[name]), abs=1e-9), name
    assert (
        np.mean(adjusted["careless"]) < 3 * cell_values.blind < np.mean(adjusted["myopic"]) < np.mean(adjusted["bayes"])
    )
