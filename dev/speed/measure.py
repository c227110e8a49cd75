"""Speed on this machine: environments, opponents, `collect`, a demo training step, tokens per update (`make bench`).

Times are CPU times. A figure and its reference take short turns, and the best turn of each counts, as in timeit: slower
turns contain the cost of other processes. Trust the ratios more than the figures.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import mage_envs  # noqa: F401  (registers the ids)
from dev.speed import tokens
from dev.speed.ours import Work, env_steps, search
from mage_envs.benchmarks.demo.run import DemoSettings, make_trainer
from mage_envs.benchmarks.evaluation.suites.environments import make_envs
from mage_envs.files.atomic import write_atomically
from mage_envs.opponents.search.mcts import MEMORY_MB, ROLLOUTS, UCT
from mage_envs.text.generation import Prompt
from mage_envs.trainer.backends.model_folder import quieten
from mage_envs.trainer.method.tasks import rollout_specs
from mage_envs.wrappers.rollout.loop import collect
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator
from mage_envs.wrappers.rollout.trajectory import Trajectory

STEPS, SEARCHES, REMARK = "steps per CPU-second", "search, us of CPU per move", "No remark."
TRAINING, TOKENS = "demo training step, seconds", "tokens forwarded per update"
SAME_STEPS, EITHER = "the same in pyspiel's state", "moves of either player there"
"""References of a base id: a learner's move with the reply as one step, as the base id counts; and every move."""
MEMBERS = 8
"""Number of meta-episodes that share their deals, as in training."""


@dataclass(frozen=True)
class Figure:
    """Line of the table: a value and its reference."""

    section: str
    name: str
    value: float
    beside: str = ""
    reference: float | None = None

    @property
    def ratio(self) -> float | None:
        """Value as a multiple of its reference, None if there is none."""
        return None if not self.reference else self.value / self.reference


@dataclass(frozen=True)
class Effort:
    """Amount of work of the measurement."""

    repeats: int = 50
    """Number of turns of each subject."""
    steps: int = 3_000
    games: int = 40
    meta_episodes: int = 256
    rollouts: int = 15
    groups: int = 32


QUICK = Effort(repeats=3, steps=3_000, games=5, meta_episodes=32, rollouts=2, groups=4)


def rates(subjects: Mapping[str, Work], repeats: int) -> dict[str, float]:
    """Return the units per CPU second of each subject in its best turn."""
    # The first call of each subject fills caches and does lazy imports, so it does not count.
    for work in subjects.values():
        work()
    best_rates = dict.fromkeys(subjects, 0.0)
    for _ in range(repeats):
        for name, work in subjects.items():
            start_time = time.process_time()
            units = work()
            # The lower limit avoids a division by zero if the work is shorter than the clock's resolution.
            best_rates[name] = max(best_rates[name], units / max(time.process_time() - start_time, 1e-9))
    return best_rates


# -- base ids --------------------------------------------------------------------------------------------------


def spiel_steps(short_name: str, steps: int) -> Work:
    """Return work of `steps` moves of either player in pyspiel's own state, with an observation string after each."""
    import pyspiel

    game = pyspiel.load_game(short_name)

    def work() -> int:
        state, chances = game.new_initial_state(), 0
        for count in range(steps):
            while state.is_chance_node():
                outcomes = state.legal_actions()
                state.apply_action(outcomes[chances % len(outcomes)])
                chances += 1
            legal = state.legal_actions()
            state.apply_action(legal[count % len(legal)])
            if state.is_terminal():
                state.observation_string(0)
                state = game.new_initial_state()
            elif not state.is_chance_node():
                state.observation_string(state.current_player())
        return steps

    return work


def spiel_replied(short_name: str, steps: int) -> Work:
    """Return the work of a base id, done in pyspiel's own state.

    The work has `steps` moves of a learner in alternating seats, with the other player's replies and the deals between
    them. The learner's observation string is made after each move and each deal.
    """
    import pyspiel

    game = pyspiel.load_game(short_name)

    def work() -> int:
        # Chance and the other player take their actions in turn. Nothing is drawn, so no time goes to random numbers.
        others = itertools.count()

        def on(state: Any, seat: int) -> bool:
            """Play all moves before the learner's next one. Return True if the hand is over."""
            while not state.is_terminal():
                if state.current_player() == seat:
                    break
                legal = state.legal_actions()
                state.apply_action(legal[next(others) % len(legal)])
            state.observation_string(seat)
            return bool(state.is_terminal())

        over, seat, state = True, 1, game.new_initial_state()
        for count in range(steps):
            if over:
                seat, state = 1 - seat, game.new_initial_state()
                on(state, seat)
            legal = state.legal_actions()
            state.apply_action(legal[count % len(legal)])
            over = on(state, seat)
        return steps

    return work


def pettingzoo_steps(steps: int) -> Work | None:
    """Return work of `steps` moves in PettingZoo's own Tic-Tac-Toe, or None if its extras are not installed."""
    try:
        from pettingzoo.classic.tictactoe.tictactoe import env as make
    except (ImportError, gym.error.DependencyNotInstalled):
        return None
    env = make()

    def work() -> int:
        env.reset()
        for count in range(steps):
            observation, _, terminated, truncated, _ = env.last()
            if terminated or truncated:
                env.reset()
                observation = env.last()[0]
            legal = np.flatnonzero(observation["action_mask"])
            env.step(int(legal[count % len(legal)]))
        return steps

    return work


def base_figures(effort: Effort) -> list[Figure]:
    """Return figures of base ids through `gym.make`, beside pyspiel's own state with its observation string."""
    pairs = (
        ("TicTacToe", "tictactoe/pattern-1", "tic_tac_toe"),
        ("KuhnPoker", "kuhn/conservative", "kuhn_poker"),
        ("KuhnPoker", "kuhn/soft-station", "kuhn_poker"),
    )
    figures = []
    for game, opponent, short_name in pairs:
        ours = env_steps(gym.make(f"mage/{game}-v0", opponent=opponent), effort.steps)
        theirs = {SAME_STEPS: spiel_replied(short_name, effort.steps), EITHER: spiel_steps(short_name, effort.steps)}
        # PettingZoo is far slower, so a tenth of the steps is enough.
        if game == "TicTacToe" and (zoo := pettingzoo_steps(effort.steps // 10)) is not None:
            theirs["PettingZoo tictactoe_v3"] = zoo
        # Measured in pairs, because the turns of a third subject would evict the caches of the second.
        for subject, work in theirs.items():
            measured = rates({"ours": ours, "theirs": work}, effort.repeats)
            name, value = f"mage/{game}-v0, {opponent}", measured["ours"]
            figures.append(Figure(section=STEPS, name=name, value=value, beside=subject, reference=measured["theirs"]))
    return figures


# -- search ----------------------------------------------------------------------------------------------------


def spiel_search(simulations: int, games: int) -> Work:
    """Return work of moves of pyspiel's bot against itself, without our code around it."""
    import pyspiel

    game = pyspiel.load_game("tic_tac_toe")
    bots = [
        pyspiel.MCTSBot(
            game, pyspiel.RandomRolloutEvaluator(ROLLOUTS, seat), UCT, simulations, MEMORY_MB, True, seat, False
        )
        for seat in range(2)
    ]

    def work() -> int:
        moves = 0
        for _ in range(games):
            state = game.new_initial_state()
            while not state.is_terminal():
                state.apply_action(bots[state.current_player()].step(state))
                moves += 1
        return moves

    return work


def search_figures(effort: Effort) -> list[Figure]:
    """Return figures of `mcts:N` on Tic-Tac-Toe, beside the bot that it uses."""
    figures = []
    for simulations, games in ((100, effort.games), (1000, max(effort.games // 5, 1))):
        subjects = {"ours": search(simulations, games), "bot": spiel_search(simulations, games)}
        measured = rates(subjects, effort.repeats)
        # The table shows microseconds per move, not moves per second.
        name = f"mcts:{simulations}, TicTacToe"
        ours, bot = 1e6 / measured["ours"], 1e6 / measured["bot"]
        figures.append(Figure(section=SEARCHES, name=name, value=ours, beside="pyspiel's bot alone", reference=bot))
    return figures


# -- collect ---------------------------------------------------------------------------------------------------


def collect_steps(env_id: str, kwargs: Mapping[str, Any], opponent: str, count: int) -> Work:
    """Return work of scripted meta-episodes through `collect`, in groups of 8 with fresh deals each time.

    Args:
        env_id: Id of the meta-episode.
        count: Number of meta-episodes.

    Returns:
        Work whose unit is a model call.
    """
    envs = make_envs(env_id, {**kwargs, "opponent": opponent}, count)

    def answer(prompt: Prompt) -> str:
        legal, tag = prompt.legal_actions, prompt.info["answer_tag"]
        action = legal[prompt.seed[2] % len(legal)] if legal else REMARK
        return action if tag is None else f"<{tag}>{action}</{tag}>"

    generator, rollouts = ScriptedGenerator(answer), itertools.count()

    def work() -> int:
        specs = rollout_specs(env_id, 0, next(rollouts), max(count // MEMBERS, 1), min(count, MEMBERS))
        return sum(len(trajectory.steps) for trajectory in collect(envs, generator, specs))

    return work


def collect_figures(effort: Effort) -> list[Figure]:
    """Return figures of scripted meta-episodes through `collect`, beside steps of the base id alone."""
    plain: dict[str, Any] = {"style": "plain"}
    subjects = (
        ("TicTacToe, plain, rebuilt", "TicTacToe", plain, "tictactoe/pattern-1"),
        ("KuhnPoker, plain, rebuilt", "KuhnPoker", plain, "kuhn/soft-station"),
        ("KuhnPoker, the demo's settings", "KuhnPoker", dict(DemoSettings().play.env_kwargs), "kuhn/soft-station"),
    )
    figures = []
    for name, game, kwargs, opponent in subjects:
        env = gym.make(f"mage/{game}-v0", opponent=opponent)
        collected = collect_steps(f"mage/{game}-Meta-v0", kwargs, opponent, effort.meta_episodes)
        measured = rates({"collect": collected, "base": env_steps(env, effort.steps)}, effort.repeats)
        steps, base, title = measured["collect"], measured["base"], f"collect: {name}"
        figures.append(Figure(section=STEPS, name=title, value=steps, beside="its base id alone", reference=base))
    return figures


# -- a training step of the demo -------------------------------------------------------------------------------


def demo_run(settings: DemoSettings, folder: Path) -> tuple[dict[str, float], float, list[list[Trajectory]]]:
    """Train the demo, for two rollouts or more.

    Returns:
        Mean metrics that the trainer records, seconds from one rollout to the next, and trajectories by rollout.
    """
    from transformers import PrinterCallback

    quieten()
    rollouts: list[list[Trajectory]] = []
    times: list[float] = []

    def keep(_: Any, trajectories: Sequence[Trajectory]) -> None:
        rollouts.append(list(trajectories))
        times.append(time.perf_counter())

    trainer = make_trainer(settings, folder, keep)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    # The intervals between rollouts exclude the start of the trainer.
    return trainer.state.log_history[-1], (times[-1] - times[0]) / (len(times) - 1), rollouts


def training_figures(metrics: Mapping[str, float], total: float) -> list[Figure]:
    """Return the parts of a rollout with its updates, in seconds of wall time, because the trainer records these."""
    seconds = {
        "environment (collect without the model)": metrics["time/environment"],
        "generation": metrics["time/generate"],
        "old log-probabilities": metrics["time/score"],
        "updates": metrics["time/update"] * metrics["updates_per_rollout"],
    }
    seconds["all else (advantages, batches, the trainer's loop)"] = total - sum(seconds.values())
    return [
        Figure(section=TRAINING, name=name, value=value, beside="rollout and updates", reference=total)
        for name, value in seconds.items()
    ]


def token_figures(rollouts: Sequence[Sequence[Trajectory]]) -> list[Figure]:
    """Return tokens per update on the demo's rollouts and on the paper's lengths, beside the useful tokens."""
    demo = [tokens.rollout_counts(trajectories, 4, 8192) for trajectories in rollouts]
    spreads = {"demo": demo, "paper's spread": [tokens.paper_counts(tokens.paper_calls())]}
    figures = []
    for name, counts in spreads.items():
        updates = sum(count.updates for count in counts)
        useful = sum(count.useful for count in counts) / updates
        for label, total in (
            ("merged rows, our micro-batches", sum(count.merged for count in counts)),
            ("one row per call, our micro-batches", sum(count.unmerged for count in counts)),
            ("one row per call, TRL's padding", sum(count.trl for count in counts)),
        ):
            figures.append(
                Figure(
                    section=TOKENS,
                    name=f"{name}: {label}",
                    value=total / updates,
                    beside="merged, unpadded",
                    reference=useful,
                )
            )
    return figures


def demo_figures(effort: Effort) -> list[Figure]:
    """Return the figures on time and tokens of the demo."""
    settings = DemoSettings(rollouts=effort.rollouts, groups=effort.groups)
    with tempfile.TemporaryDirectory() as folder:
        metrics, seconds, rollouts = demo_run(settings, Path(folder))
    return training_figures(metrics, seconds) + token_figures(rollouts)


# -- the table -------------------------------------------------------------------------------------------------


def number(value: float | None) -> str:
    """Format a value with three significant digits, or as an integer if it has more."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(figures: Sequence[Figure]) -> str:
    """Return all figures as text, with one block per section."""
    width = max(len(figure.name) for figure in figures)
    reference_width = max(len(figure.beside) for figure in figures)
    lines = []
    for section, block in itertools.groupby(figures, key=lambda figure: figure.section):
        lines += ["", f"{section:<{width}}  {'':>11}  {'beside':<{reference_width}}  {'':>11}  {'ratio':>7}"]
        for f in block:
            ratio = "" if f.ratio is None else f"{f.ratio:.3f}"
            value, reference = number(f.value), number(f.reference)
            lines.append(
                f"{f.name:<{width}}  {value:>11}  {f.beside:<{reference_width}}  {reference:>11}  {ratio:>7}".rstrip()
            )
    return "\n".join(lines[1:]) + "\n"


def as_json(figures: Sequence[Figure], effort: Effort) -> str:
    """Return all figures, the machine and the effort as JSON."""
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    lines = [asdict(figure) | {"ratio": figure.ratio} for figure in figures]
    return json.dumps({**machine, "effort": asdict(effort), "figures": lines}, indent=1) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m dev.speed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="measure less, in a fifth of the time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for the figures, as JSON (default: none)")
    options = parser.parse_args(arguments)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    effort = QUICK if options.quick else Effort()
    figures: list[Figure] = []
    for measure in (base_figures, collect_figures, search_figures, demo_figures):
        sys.stderr.write(f"measuring: {measure.__name__.removesuffix('_figures')}\n")
        figures += measure(effort)
    print(table(figures), end="")
    if options.json is not None:
        write_atomically(options.json, as_json(figures, effort))
    return 0
