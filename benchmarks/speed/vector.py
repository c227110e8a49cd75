"""Speed of the vector environments beside single ones: `python -m benchmarks.speed.vector`.

Each subject replays the same recorded answers, so that only environments are measured: text in, text out, opponents'
replies, infos and resets included (mode SAME_STEP, where every row's every step is a move). CPU time, medians over
repeats in which batch and single environments take turns: trust the ratios more than the figures.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

import mage_envs  # noqa: F401  (registers the ids)
from benchmarks.speed.measure import STEPS, Figure, table


@dataclass(frozen=True)
class Case:
    """What is measured."""

    name: str
    env_id: str
    options: Mapping[str, Any]


CASES = (
    Case("TicTacToe, tictactoe/pattern-1", "mage/TicTacToe-v0", {"opponent": "tictactoe/pattern-1"}),
    Case("TicTacToe, tictactoe/center-biased", "mage/TicTacToe-v0", {"opponent": "tictactoe/center-biased"}),
    Case("KuhnPoker, pool:kuhn/paper", "mage/KuhnPoker-v0", {}),
    Case("KuhnPoker, kuhn/soft-station", "mage/KuhnPoker-v0", {"opponent": "kuhn/soft-station"}),
    Case("Sokoban, moves alone", "mage/Sokoban-v0", {"max_turns": 10**6}),
    Case("Sokoban, with new rooms", "mage/Sokoban-v0", {}),
)
WORKER_CASE = Case("TicTacToe, mcts:1000", "mage/TicTacToe-v0", {"opponent": "mcts:1000"})
"""A slow opponent, for worker processes; measured in wall time, since that is what they save."""
SIZES = (1024, 64)
LEAST_STEPS = 14
"""Per environment, so that every case has ends of episodes among its steps."""
WALL = "steps per second of wall time"
Answers = list[list[str]]
"""Per step, one answer per environment."""


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    repeats: int = 5
    moves: int = 100_000
    """Per case, size and repeat."""
    room_moves: int = 5_000
    """The same, where new rooms take most of the time."""
    slow_moves: int = 400


QUICK = Effort(repeats=3, moves=20_000, room_moves=2_000, slow_moves=100)


class Subject(Protocol):
    """Environments that are stepped together."""

    def reset(self) -> tuple[Any, dict[str, Any]]: ...

    def play(self, answers: Answers) -> None:
        """Plays all of them from the last reset."""


class Batched:
    """One vector environment."""

    def __init__(self, case: Case, count: int, **more: Any) -> None:
        self.envs: Any = gym.make_vec(
            case.env_id, num_envs=count, autoreset_mode=AutoresetMode.SAME_STEP, **case.options, **more
        )

    def reset(self) -> tuple[Any, dict[str, Any]]:
        return self.envs.reset(seed=0)  # type: ignore[no-any-return]

    def play(self, answers: Answers) -> None:
        step = self.envs.step
        for given in answers:
            step(given)

    def record(self, moves: int) -> Answers:
        """Legal answers drawn at random; equal seeds make them legal wherever they are replayed."""
        rng = np.random.default_rng(0)
        info, recorded = self.reset()[1], []
        for _ in range(max(moves // self.envs.num_envs, LEAST_STEPS)):
            draws = rng.random(self.envs.num_envs).tolist()
            given = [legal[int(draw * len(legal))] for legal, draw in zip(info["legal_actions"], draws, strict=True)]
            recorded.append(given)
            info = self.envs.step(given)[4]
        return recorded


class Singles:
    """As many environments of their own, one after the other."""

    def __init__(self, case: Case, count: int) -> None:
        self.envs = [gym.make(case.env_id, **case.options) for _ in range(count)]

    def reset(self) -> tuple[Any, dict[str, Any]]:
        for row, env in enumerate(self.envs):
            env.reset(seed=row)
        return None, {}

    def play(self, answers: Answers) -> None:
        for given in answers:
            for env, answer in zip(self.envs, given, strict=True):
                _, _, terminated, truncated, _ = env.step(answer)
                if terminated or truncated:
                    env.reset()


def rates(
    subjects: Mapping[str, Subject], answers: Answers, repeats: int, clock: Any = time.process_time
) -> dict[str, float]:
    """Steps per second of `clock`, medians; the resets that precede each repeat are not timed."""
    steps = sum(map(len, answers))
    found: dict[str, list[float]] = {name: [] for name in subjects}
    for repeat in range(repeats + 1):
        for name, subject in subjects.items():
            subject.reset()
            started = clock()
            subject.play(answers)
            if repeat:  # the first one fills caches
                found[name].append(steps / max(clock() - started, 1e-9))
    return {name: statistics.median(values) for name, values in found.items()}


def batch_figures(effort: Effort) -> list[Figure]:
    """Every case in every size, beside single environments."""
    figures = []
    for case in CASES:
        moves = effort.room_moves if case.name.endswith("rooms") else effort.moves
        for count in SIZES:
            batched = Batched(case, count)
            answers = batched.record(moves)
            found = rates({"batch": batched, "single": Singles(case, count)}, answers, effort.repeats)
            name = f"{case.name}, n = {count}"
            figures.append(Figure(STEPS, name, found["batch"], f"{count} single environments", found["single"]))
    return figures


def worker_figures(effort: Effort) -> list[Figure]:
    """Two processes beside one, where opponents are slow."""
    alone, shared = Batched(WORKER_CASE, 16), Batched(WORKER_CASE, 16, workers=2)
    answers = alone.record(effort.slow_moves)
    found = rates({"one": alone, "two": shared}, answers, effort.repeats, time.perf_counter)
    shared.envs.close()
    return [Figure(WALL, f"{WORKER_CASE.name}, n = 16, 2 workers", found["two"], "no workers", found["one"])]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.vector", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the time, for a look")
    effort = QUICK if parser.parse_args(arguments).quick else Effort()
    sys.stdout.write(table(batch_figures(effort) + worker_figures(effort)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
