"""`evaluate`: an agent on a panel, through the one rollout loop; and the subcommand `mage-bench eval`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from benchmarks.evaluation import report
from benchmarks.evaluation.agents import Agent, SavedModelAgent, make_agent
from benchmarks.evaluation.environments import check_opponents, env_maker, environments, game_of, seats_of
from benchmarks.evaluation.scores import label, summarise
from benchmarks.evaluation.suites import fingerprint, named_panel, panel, weights_of
from mage_envs.core import Game, Task
from mage_envs.processes import DEADLINE
from mage_envs.registry import settings_of
from mage_envs.terminal.json_options import read_object
from trainer.ledger import Ledger, failure_rows, totals
from trainer.rollout import RolloutSpec, collect
from trainer.trajectory import Trajectory


def evaluate(
    agent: Agent,
    panel: Sequence[Task],
    env_kwargs: Mapping[str, Any] | None = None,
    *,
    batch: int = 256,
    workers: int = 0,
    env_timeout: float = DEADLINE,
    memory_gb: float = 0.0,
    on_step: Callable[[int, int], None] | None = None,
) -> list[Trajectory]:
    """Plays every task of `panel` once, through all wrappers that its id brings; the trajectories come in its order.

    `batch` meta-episodes advance together. `workers`: processes in which environments and opponents play (0: this one),
    each with `memory_gb` GiB of address space (0: no limit). `env_timeout`: seconds that an environment with its
    opponents has for a move (0: for ever). `on_step(done, all)` is called after each round. What breaks is played once
    more and then filed with its `failure`; if everything broke, RuntimeError tells the first reason. Results do not
    depend on `batch` or `workers`.
    """
    if not panel:
        raise ValueError("The panel holds no task.")
    if len({task.env_id for task in panel}) > 1:
        raise ValueError("The tasks of a panel must share one environment id; evaluate each id by itself.")
    if batch < 1 or workers < 0:
        raise ValueError(f"evaluate() needs batch >= 1 and workers >= 0, got {batch} and {workers}.")
    env_id = panel[0].env_id
    game = game_of(env_id, env_kwargs)
    generator = agent.generator(game)
    check_opponents(panel, game)
    with environments(env_id, env_kwargs, min(batch, len(panel)), workers, memory_gb) as envs:
        trajectories = collect(
            envs,
            generator,
            [RolloutSpec(task) for task in panel],
            env_timeout=env_timeout,
            make_env=env_maker(env_id, env_kwargs),
            on_step=on_step,
        )
    failures = [t.failure for t in trajectories if t.failure is not None]
    if len(failures) == len(trajectories):
        raise RuntimeError(f"All {len(failures)} meta-episodes of {agent.name} broke; the first: {failures[0]}")
    return trajectories


def tell_failures(trajectories: Sequence[Trajectory], folder: str | None) -> None:
    """Writes the failures into `failures.jsonl` of the folder, if there is one, and their totals to stderr."""
    if not any(trajectory.failures for trajectory in trajectories):
        return
    if folder is None:
        rows = [row for trajectory in trajectories for row in failure_rows(trajectory)]
        sys.stderr.write(f"{totals(rows)}; --out FOLDER keeps their tracebacks.\n")
        return
    ledger = Ledger(folder)
    ledger.resume(0)
    ledger.record(trajectories, "eval", 0)
    sys.stderr.write(f"{ledger.told()}\n")


class Progress:
    """Work done and time left: one line redrawn on a terminal, a line now and then elsewhere."""

    def __init__(self, stream: TextIO, label: str, unit: str = "meta-episodes") -> None:
        self.done = self.total = 0
        self._unit = unit
        self._stream = stream
        self._label = label
        self._live = stream.isatty()
        self._started = time.monotonic()
        self._shown = float("-inf")

    def __call__(self, done: int, total: int, kept: int = 0) -> None:
        """`kept` of those done were played by an earlier run."""
        self.done, self.total = done, total
        now = time.monotonic()
        if done < total and now - self._shown < (0.2 if self._live else 10.0):
            return
        self._shown = now
        left = (now - self._started) / (done - kept) * (total - done) if done > kept else None
        text = f"{self._label}: {done}/{total} {self._unit}, " + (f"{kept} of them from before, " if kept else "")
        if done == total:
            text += f"{now - self._started:.1f} s"
        else:
            text += "starting" if left is None else f"{left:.0f} s left"
        self._stream.write(f"\r\x1b[K{text}" if self._live else f"{text}\n")
        if self._live and done == total:
            self._stream.write("\n")
        self._stream.flush()


# -- mage-bench eval -------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mage-bench eval`."""
    parser.add_argument("agent", metavar="AGENT", help="policy:NAME, scripted:first, model:FOLDER or a folder")
    parser.add_argument("--env", metavar="ID", help="a -Meta-v0 id; a saved model's own by default")
    parser.add_argument("--env-kwargs", metavar="JSON", help="options of the id; they change a saved model's own")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--opponents",
        metavar="NAMES",
        help="names, or pool:NAME, with commas between (semicolons where a name has one)",
    )
    which.add_argument("--panel", metavar="NAME", help="a named panel; mage-bench list shows them")
    parser.add_argument("--rows", type=int, metavar="N", help="meta-episodes per opponent and first seat (default 64)")
    parser.add_argument("--seed", type=int, metavar="S", help="seed of the panel (default 0)")
    parser.add_argument("--batch", type=int, default=256, metavar="N", help="meta-episodes played together (256)")
    parser.add_argument(
        "--env-workers", type=int, default=0, metavar="N", help="processes for environments and opponents (0: none)"
    )
    parser.add_argument(
        "--env-memory-gb", type=float, default=0.0, metavar="G", help="address space of each of these in GiB (no limit)"
    )
    parser.add_argument(
        "--env-timeout",
        type=float,
        default=DEADLINE,
        metavar="S",
        help="seconds for a move of theirs (600; 0: for ever)",
    )
    parser.add_argument("--out", metavar="FOLDER", help="write summary.json, scores.csv and adaptation.png there")


def run(arguments: argparse.Namespace) -> None:
    """Evaluates, and writes the table to stdout; ends with status 1 where no meta-episode of an opponent was scored."""
    agent = make_agent(arguments.agent)
    settings = agent.settings.env_kwargs if isinstance(agent, SavedModelAgent) else {}
    fixed = {} if arguments.panel is None else dict(named_panel(arguments.panel).env_kwargs)
    given = read_object("--env-kwargs", arguments.env_kwargs, '{"num_episodes": 5}')
    if overruled := sorted(set(fixed) & set(given)):
        raise ValueError(f"Panel {arguments.panel!r} fixes {', '.join(overruled)}; leave that out of --env-kwargs.")
    env_kwargs = {**settings, **given, **fixed}
    tasks, weights, name = _chosen(arguments, agent, env_kwargs)
    progress = Progress(sys.stderr, agent.name)
    trajectories = evaluate(
        agent,
        tasks,
        env_kwargs,
        batch=arguments.batch,
        workers=arguments.env_workers,
        env_timeout=arguments.env_timeout,
        memory_gb=arguments.env_memory_gb,
        on_step=progress,
    )
    tell_failures(trajectories, arguments.out)
    game = game_of(tasks[0].env_id, env_kwargs)
    hashed = f"{name}, {len(tasks)} meta-episodes, sha256 {fingerprint(tasks, fixed)[:12]}"
    summary = summarise(trajectories, game, weights=weights, agent=agent.name, panel=hashed)
    sys.stdout.write(report.table(summary))
    if arguments.out is not None:
        sys.stderr.write("".join(f"wrote {path}\n" for path in report.save(Path(arguments.out), summary)))
    if unscored := [row.opponent or "all" for row in summary.rows if not row.meta_episodes]:
        first = next(t.failure for t in trajectories if (label(t) or "all") == unscored[0])
        sys.stderr.write(f"mage-bench: no meta-episode of {', '.join(unscored)} could be played; the first: {first}\n")
        raise SystemExit(1)


def _chosen(
    arguments: argparse.Namespace, agent: Agent, env_kwargs: Mapping[str, Any]
) -> tuple[tuple[Task, ...], dict[str, float] | None, str]:
    """The tasks, the weights of their opponents, and what to call them."""
    env_id = arguments.env
    if env_id is None and isinstance(agent, SavedModelAgent):
        env_id = agent.settings.env_id
    if arguments.panel is not None:
        chosen = named_panel(arguments.panel)
        if arguments.rows is not None or arguments.seed is not None:
            raise ValueError("--panel fixes its rows and its seed; leave --rows and --seed out, or use --opponents.")
        if env_id not in (None, chosen.env_id):
            raise ValueError(f"Panel {arguments.panel!r} is played in {chosen.env_id}, not in {env_id}.")
        return chosen.tasks(), chosen.weights() or None, arguments.panel
    if env_id is None:
        raise ValueError("Say what to play: --env mage/KuhnPoker-Meta-v0 (or another -Meta-v0 id), or --panel NAME.")
    seed = arguments.seed or 0
    rows = 64 if arguments.rows is None else arguments.rows
    seats = seats_of(env_id, env_kwargs)
    if seats == (None,):
        return panel(env_id, (None,), rows, seed, seats), None, f"seed {seed}"
    weights = _opponents(arguments.opponents, game_of(env_id, env_kwargs))
    return panel(env_id, tuple(weights), rows, seed, seats), weights, f"seed {seed}"


def _opponents(text: str | None, game: Game) -> dict[str, float]:
    """Names and weights; the game's default opponents where none are named."""
    if text is None:
        return weights_of(settings_of(game.facts.name).opponent)
    names = [name.strip() for name in text.split(";" if ";" in text else ",") if name.strip()]
    if len(names) == 1 and names[0].startswith("pool:"):
        return weights_of(names[0])
    return dict.fromkeys(names, 1.0)
