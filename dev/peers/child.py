"""Process of one side: it answers requests for measurements, one JSON line each, until its input ends.

The script is started by its path in the side's own virtual environment. It therefore imports only the standard library
before it knows its side. All times are CPU times of this process.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

Chunk = Callable[[], tuple[float, float]]
"""Function that does some work and returns the number of units and the CPU seconds that count."""
STEPS_PER_CHUNK = 500
EPISODE = 100
"""Maximal number of moves in an episode of Sokoban, on every side."""
MOVES = ("up", "down", "left", "right")
_clock = time.process_time


def wandering() -> Iterator[int]:
    """Yield moves from 0 to 3 of a linear congruential sequence, which has no pattern that a board could block."""
    # Not a module of random numbers, so that all sides have the same moves at the same cost.
    state = 1
    while True:
        state = (state * 1103515245 + 12345) % 2**31
        # The lowest bits of such a sequence have short periods.
        yield state >> 16 & 3


def time_work(work: Callable[[], float]) -> Chunk:
    """Return a chunk all of whose time counts."""

    def chunk() -> tuple[float, float]:
        start_time = _clock()
        units = work()
        return units, _clock() - start_time

    return chunk


def walk_randomly(step: Callable[[int], bool], reset: Callable[[], object], with_resets: bool) -> Chunk:
    """Return a chunk of steps with random moves.

    Args:
        step: Function that plays a move and returns True if the episode is over.
        reset: Function that starts an episode.
        with_resets: True if the time of resets counts.
    """
    walk = wandering()
    reset()

    def chunk() -> tuple[float, float]:
        left_out, start_time = 0.0, _clock()
        for _ in range(STEPS_PER_CHUNK):
            if step(next(walk)):
                reset_start = _clock()
                reset()
                left_out += 0.0 if with_resets else _clock() - reset_start
        return STEPS_PER_CHUNK, _clock() - start_time - left_out

    return chunk


def gym_like_walk(env: Any, actions: Sequence[str], with_resets: bool) -> Chunk:
    """Return `walk_randomly` for an environment whose step returns the end of the episode as its third value.

    Args:
        actions: Actions in the order of `MOVES`.
        with_resets: True if the time of resets counts.
    """
    return walk_randomly(lambda move: bool(env.step(actions[move])[2]), env.reset, with_resets)


def _sokoban_of(module: str, size: int, boxes: int) -> Any:
    """Return the environment of TextArena or GEM, which use the same names."""
    env_class = importlib.import_module(module).SokobanEnv
    return env_class(dim_room=(size, size), max_turns=EPISODE, num_boxes=boxes)


def one(work: Callable[[], object]) -> Chunk:
    """Return a chunk of a single unit."""

    def unit() -> float:
        work()
        return 1

    return time_work(unit)


# -- MAGE Envs -------------------------------------------------------------------------------------------------


def _our_env(env_id: str, **options: Any) -> Any:
    importlib.import_module("mage_envs")
    env = importlib.import_module("gymnasium").make(env_id, **options)
    env.reset(seed=0)
    return env


def our_steps(env_id: str, opponent: str) -> Chunk:
    """Return a chunk of the learner's steps through `gym.make`, including the opponent's replies and the resets."""
    ours = importlib.import_module("dev.speed.ours")
    return time_work(ours.env_steps(_our_env(env_id, opponent=opponent), STEPS_PER_CHUNK))


def our_walk(with_resets: bool) -> Chunk:
    return gym_like_walk(_our_env("mage/Sokoban-v0", max_turns=EPISODE), MOVES, with_resets)


def our_resets(size: int, boxes: int) -> Chunk:
    return one(_our_env("mage/Sokoban-v0", size=size, boxes=boxes).reset)


def our_search() -> Chunk:
    """Return a chunk of moves of `mcts:100` against itself in Tic-Tac-Toe, including its resets."""
    return time_work(importlib.import_module("dev.speed.ours").search(100, 1))


# -- OpenSpiel -------------------------------------------------------------------------------------------------


def spiel_search() -> Chunk:
    """Return a chunk of moves of OpenSpiel's Python bot against itself, with the settings of our `mcts:100`."""
    game = importlib.import_module("pyspiel").load_game("tic_tac_toe")
    mcts = importlib.import_module("open_spiel.python.algorithms.mcts")
    state_of = importlib.import_module("numpy").random.RandomState
    bots = [
        mcts.MCTSBot(game, 1.4, 100, mcts.RandomRolloutEvaluator(1, state_of(seat)), random_state=state_of(seat))
        for seat in range(2)
    ]

    def work() -> float:
        state, moves = game.new_initial_state(), 0
        while not state.is_terminal():
            state.apply_action(bots[state.current_player()].step(state))
            moves += 1
        return moves

    return time_work(work)


# -- TextArena -------------------------------------------------------------------------------------------------


def arena_steps(env_id: str, scripts: Sequence[Sequence[str]]) -> Chunk:
    """Return a chunk of one player's steps, including the other player's replies, in alternating seats.

    The environment has its default wrapper. Before each move, the text of the player is read. Scripts play both sides.
    """
    make, turns, seats = importlib.import_module("textarena").make, cycle(scripts), cycle((0, 1))

    def work() -> float:
        steps = 0
        while steps < STEPS_PER_CHUNK:
            # A new environment for each episode, because the wrapper keeps the texts of earlier episodes.
            env, seat = make(env_id), next(seats)
            env.reset(num_players=2)
            for action in next(turns):
                steps += env.get_observation()[0] == seat
                if env.step(action)[0]:
                    break
            else:
                raise RuntimeError(f"the script of {env_id} ended before the game")
        return steps

    return time_work(work)


ARENA = "textarena.envs.Sokoban.env"
CELLS = [[f"[{(2 * column + start) % 9}]" for column in range(9)] for start in range(9)]
"""Orders in which to fill the board of Tic-Tac-Toe."""
_BETTING = (("check", "check"), ("check", "bet", "call"), ("bet", "fold"), ("check", "bet", "fold"), ("bet", "call"))
ROUNDS = [[f"[{word}]" for turn in range(3) for word in _BETTING[(start + turn) % 5]] for start in range(5)]
"""Scripts of Kuhn Poker, whose episode has three rounds in TextArena."""


def arena_walk(with_resets: bool) -> Chunk:
    """Return a chunk of random moves in TextArena's Sokoban.

    A move against a wall ends an episode there, so another move is chosen. The time of the choice does not count.
    """
    env, choice_seconds = _sokoban_of(ARENA, 6, 2), 0.0

    def step(move: int) -> bool:
        nonlocal choice_seconds
        start_time = _clock()
        for turned in range(4):
            name = MOVES[(move + turned) % 4]
            if not env._would_collide_with_wall(name):
                break
        choice_seconds += _clock() - start_time
        over: bool = env.step(f"[{name}]")[0]
        env.get_observation()
        return over

    chunk_with_choices = walk_randomly(step, lambda: env.reset(num_players=1), with_resets)

    def chunk() -> tuple[float, float]:
        nonlocal choice_seconds
        choice_seconds = 0.0
        units, seconds = chunk_with_choices()
        return units, seconds - choice_seconds

    return chunk


def arena_resets(size: int, boxes: int) -> Chunk:
    env = _sokoban_of(ARENA, size, boxes)
    return one(lambda: env.reset(num_players=1))


# -- GEM -------------------------------------------------------------------------------------------------------


GEM = "gem.envs.game_env.sokoban.sokoban"


def gem_walk(with_resets: bool) -> Chunk:
    return gym_like_walk(_sokoban_of(GEM, 6, 2), [f"\\boxed{{{move}}}" for move in MOVES], with_resets)


def gem_resets(size: int, boxes: int) -> Chunk:
    return one(_sokoban_of(GEM, size, boxes).reset)


# -- gym-sokoban -----------------------------------------------------------------------------------------------

SYMBOLS = "#_O√XPS"


def _board(state: Any) -> str:
    return "\n".join([" ".join([SYMBOLS[int(cell)] for cell in row]) for row in state])


def gym_walk(with_resets: bool) -> Chunk:
    """Return a chunk of gym-sokoban's steps with its smallest image, followed by the board as text."""
    # The project has no text observations, so the text is added for a fair comparison.
    module = importlib.import_module("gym_sokoban.envs.sokoban_env")
    env = module.SokobanEnv(dim_room=(6, 6), max_steps=EPISODE, num_boxes=2, reset=False)

    def step(move: int) -> bool:
        over: bool = env.step(move + 1, observation_mode="tiny_rgb_array")[2]
        _board(env.room_state)
        return over

    return walk_randomly(step, lambda: env.reset(render_mode="tiny_rgb_array"), with_resets)


def gym_resets(size: int, boxes: int) -> Chunk:
    """Return a chunk of rooms from gym-sokoban's generator. If the generator gives up, it is called again."""
    generate = importlib.import_module("gym_sokoban.envs.room_utils").generate_room

    def room() -> str:
        while True:
            # The number of steps and the retry are those of the project's own `reset`.
            try:
                state = generate((size, size), num_steps=int(1.7 * 2 * size), num_boxes=boxes)[1]
            except (RuntimeError, RuntimeWarning):
                continue
            return _board(state)

    return one(room)


# -- requests --------------------------------------------------------------------------------------------------


def _sokoban(walk: Callable[[bool], Chunk], resets: Callable[[int, int], Chunk]) -> dict[str, Callable[[], Chunk]]:
    return {
        "sokoban-moves": lambda: walk(False),
        "sokoban-play": lambda: walk(True),
        "sokoban-reset-6": lambda: resets(6, 2),
        "sokoban-reset-10": lambda: resets(10, 4),
    }


SUBJECTS: Mapping[str, Mapping[str, Callable[[], Chunk]]] = {
    "ours": {
        "tictactoe": lambda: our_steps("mage/TicTacToe-v0", "tictactoe/pattern-1"),
        "kuhn": lambda: our_steps("mage/KuhnPoker-v0", "kuhn/soft-station"),
        "mcts": our_search,
        **_sokoban(our_walk, our_resets),
    },
    "open_spiel": {"mcts": spiel_search},
    "textarena": {
        "tictactoe": lambda: arena_steps("TicTacToe-v0", CELLS),
        "kuhn": lambda: arena_steps("KuhnPoker-v0", ROUNDS),
        **_sokoban(arena_walk, arena_resets),
    },
    "gem": _sokoban(gem_walk, gem_resets),
    "gym_sokoban": _sokoban(gym_walk, gym_resets),
}
"""Chunks to measure, by side and row."""


def measure(side: str, row: str, seconds: float) -> dict[str, float | str]:
    """Repeat the work of a row for some time, at least once.

    Args:
        seconds: CPU seconds of the measurement.

    Returns:
        `rate` (units per second), `p50` (median seconds per unit) and `units` (their number), or `missing` with the
        reason if the side does not have the game.
    """
    if row not in SUBJECTS[side]:
        return {"missing": "it has no such game"}
    chunk = SUBJECTS[side][row]()
    start_time, units, spent, unit_costs = _clock(), 0.0, 0.0, []
    for _ in cycle((0,)):
        unit_count, cost = chunk()
        units, spent = units + unit_count, spent + cost
        unit_costs.append(cost / unit_count)
        if _clock() - start_time >= seconds:
            break
    return {"rate": units / max(spent, 1e-9), "p50": statistics.median(unit_costs), "units": units}


def main(side: str) -> None:
    """Answer requests until the input ends."""
    # Output of the measured packages is redirected to stderr, because stdout carries the replies.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = measure(side, request["row"], request["seconds"])
        # Any error of another project's code becomes a cell of the table and does not stop the benchmark.
        except Exception as error:
            reply = {"missing": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    main(sys.argv[1])
