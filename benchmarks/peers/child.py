"""What runs inside one side's Python: answers requests for measurements, one JSON line each, until its input ends.

Started by path in the side's own environment, so it imports nothing but the standard library before it knows which
side it is. All times are CPU times of this process.
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
"""Does some work; returns how many units it did and the CPU seconds that count."""
STEPS_PER_CHUNK = 500
EPISODE = 100
"""Limit of moves in an episode of Sokoban, on every side."""
MOVES = ("up", "down", "left", "right")
_clock = time.process_time


def wandering() -> Iterator[int]:
    """Moves, 0 to 3, without a pattern that a board could stop: a linear congruential sequence."""
    state = 1
    while True:
        state = (state * 1103515245 + 12345) % 2**31
        yield state >> 16 & 3


def timed(work: Callable[[], float]) -> Chunk:
    """A chunk of which all the time counts."""

    def chunk() -> tuple[float, float]:
        started = _clock()
        units = work()
        return units, _clock() - started

    return chunk


def walked(step: Callable[[int], bool], reset: Callable[[], object], with_resets: bool) -> Chunk:
    """Steps with random moves; `step` says whether the episode is over. Resets count where `with_resets`."""
    walk = wandering()
    reset()

    def chunk() -> tuple[float, float]:
        left_out, started = 0.0, _clock()
        for _ in range(STEPS_PER_CHUNK):
            if step(next(walk)):
                before = _clock()
                reset()
                left_out += 0.0 if with_resets else _clock() - before
        return STEPS_PER_CHUNK, _clock() - started - left_out

    return chunk


def gym_like_walk(env: Any, actions: Sequence[str], with_resets: bool) -> Chunk:
    """`walked` in an environment whose step tells third whether the episode is over; `actions` in the order of
    `MOVES`."""
    return walked(lambda move: bool(env.step(actions[move])[2]), env.reset, with_resets)


def _sokoban_of(module: str, size: int, boxes: int) -> Any:
    """The environment of TextArena and of GEM, whose names are the same."""
    made = importlib.import_module(module).SokobanEnv
    return made(dim_room=(size, size), max_turns=EPISODE, num_boxes=boxes)


def one(work: Callable[[], object]) -> Chunk:
    """A single unit a chunk."""

    def unit() -> float:
        work()
        return 1

    return timed(unit)


# -- MAGE Envs -------------------------------------------------------------------------------------------------


def _our_env(env_id: str, **options: Any) -> Any:
    importlib.import_module("mage_envs")
    env = importlib.import_module("gymnasium").make(env_id, **options)
    env.reset(seed=0)
    return env


def our_steps(env_id: str, opponent: str) -> Chunk:
    """The learner's steps through `gym.make`, the opponent's replies and resets included."""
    ours = importlib.import_module("benchmarks.speed.ours")
    return timed(ours.env_steps(_our_env(env_id, opponent=opponent), STEPS_PER_CHUNK))


def our_walk(with_resets: bool) -> Chunk:
    return gym_like_walk(_our_env("mage/Sokoban-v0", max_turns=EPISODE), MOVES, with_resets)


def our_resets(size: int, boxes: int) -> Chunk:
    return one(_our_env("mage/Sokoban-v0", size=size, boxes=boxes).reset)


def our_search() -> Chunk:
    """Moves of the opponent `mcts:100` against itself on Tic-Tac-Toe, its resets included."""
    return timed(importlib.import_module("benchmarks.speed.ours").search(100, 1))


# -- OpenSpiel -------------------------------------------------------------------------------------------------


def spiel_search() -> Chunk:
    """Moves of OpenSpiel's Python bot, with the settings of our `mcts:100`, against itself."""
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

    return timed(work)


# -- TextArena -------------------------------------------------------------------------------------------------


def arena_steps(env_id: str, scripts: Sequence[Sequence[str]]) -> Chunk:
    """One player's steps, the other's replies included, in seats in turn, with its default wrapper; each move with the
    text that its player sees, episodes by a script.

    The environment is made anew for each episode: its wrapper keeps the texts of earlier ones.
    """
    make, turns, seats = importlib.import_module("textarena").make, cycle(scripts), cycle((0, 1))

    def work() -> float:
        steps = 0
        while steps < STEPS_PER_CHUNK:
            env, seat = make(env_id), next(seats)
            env.reset(num_players=2)
            for action in next(turns):
                steps += env.get_observation()[0] == seat
                if env.step(action)[0]:
                    break
            else:
                raise RuntimeError(f"the script of {env_id} ended before the game did")
        return steps

    return timed(work)


ARENA = "textarena.envs.Sokoban.env"
CELLS = [[f"[{(2 * place + start) % 9}]" for place in range(9)] for start in range(9)]
"""Orders in which to fill the board of Tic-Tac-Toe."""
_BETTING = (("check", "check"), ("check", "bet", "call"), ("bet", "fold"), ("check", "bet", "fold"), ("bet", "call"))
ROUNDS = [[f"[{word}]" for turn in range(3) for word in _BETTING[(start + turn) % 5]] for start in range(5)]
"""Kuhn Poker: an episode has three rounds."""


def arena_walk(with_resets: bool) -> Chunk:
    """Random moves; a move against a wall ends an episode there, so another is chosen, and choosing does not count."""
    env, chosen = _sokoban_of(ARENA, 6, 2), 0.0

    def step(move: int) -> bool:
        nonlocal chosen
        before = _clock()
        for turned in range(4):
            name = MOVES[(move + turned) % 4]
            if not env._would_collide_with_wall(name):
                break
        chosen += _clock() - before
        over: bool = env.step(f"[{name}]")[0]
        env.get_observation()
        return over

    whole = walked(step, lambda: env.reset(num_players=1), with_resets)

    def chunk() -> tuple[float, float]:
        nonlocal chosen
        chosen = 0.0
        units, seconds = whole()
        return units, seconds - chosen

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
    """Its step with its smallest image (it has no text), then the board as text."""
    module = importlib.import_module("gym_sokoban.envs.sokoban_env")
    env = module.SokobanEnv(dim_room=(6, 6), max_steps=EPISODE, num_boxes=2, reset=False)

    def step(move: int) -> bool:
        over: bool = env.step(move + 1, observation_mode="tiny_rgb_array")[2]
        _board(env.room_state)
        return over

    return walked(step, lambda: env.reset(render_mode="tiny_rgb_array"), with_resets)


def gym_resets(size: int, boxes: int) -> Chunk:
    """Its generator alone, tried again where it gives up, as its `reset` does."""
    generate = importlib.import_module("gym_sokoban.envs.room_utils").generate_room

    def room() -> str:
        while True:
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
"""Side to row to what is measured."""


def measure(side: str, row: str, seconds: float) -> dict[str, float | str]:
    """Repeats the work for `seconds`, at least once; `rate`: units a second, `p50`: median seconds a unit."""
    if row not in SUBJECTS[side]:
        return {"missing": "it has no such game"}
    chunk = SUBJECTS[side][row]()
    started, units, spent, each = _clock(), 0.0, 0.0, []
    for _ in cycle((0,)):
        done, cost = chunk()
        units, spent = units + done, spent + cost
        each.append(cost / done)
        if _clock() - started >= seconds:
            break
    return {"rate": units / max(spent, 1e-9), "p50": statistics.median(each), "units": units}


def main(side: str) -> None:
    """Answers requests; what the measured packages print goes to the error output."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = measure(side, request["row"], request["seconds"])
        except Exception as error:  # whatever another project's code raises is a line of the table, not our end
            reply = {"missing": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    main(sys.argv[1])
