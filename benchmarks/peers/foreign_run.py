"""`python -m benchmarks.peers.foreign_run FILE`: another project's environment is trained on and evaluated.

It runs where that project is installed and our dependencies are found too, and writes a `ForeignOutcome` as JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import cast

import gymnasium as gym
from transformers import AutoTokenizer, PreTrainedModel

from benchmarks import Agent, GeneratorAgent, SavedModelAgent, evaluate
from benchmarks.peers.foreign import Evaluated, ForeignOutcome
from mage_envs import Prompt, Task
from trainer import MAGEConfig, MAGETrainer, Trajectory
from trainer.generation import ScriptedGenerator
from trainer.tiny import general_tiny
from trainer.tokens import ChatTokenizer

TASKS = 8
REPLY_TOKENS = 32


def guess(prompt: Prompt, numbers: int = 20) -> str:
    """Guesses every number in an order of its own for each seed and member; a plan where it is to reflect."""
    if prompt.phase == "reflect":
        return "<remark>plan</remark>"
    seed, member, turn, _ = prompt.seed
    return f"<action>[{(7 * turn + seed + 3 * member) % numbers + 1}]</action>"


def settings(folder: Path, members: int = 4, imports: Sequence[str] = ()) -> MAGEConfig:
    """Two rollouts of one group with an update each, into `folder`."""
    return MAGEConfig(
        output_dir=str(folder),
        groups_per_rollout=1,
        num_generations=members,
        max_rollouts=2,
        updates_per_rollout="1",
        max_completion_length=REPLY_TOKENS,
        imports=[*imports],
        max_prompt_length=8192,
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        learning_rate=1e-2,
    )


def trained(env_id: str, answer: Callable[[Prompt], str], folder: Path, module: str) -> tuple[int, bool, int, int]:
    """Two updates of a tiny model, on replies of `answer`, into `folder`: updates, whether the weights changed,
    meta-episodes played, and those of them that failed."""
    played: list[Trajectory] = []
    tiny = general_tiny(folder / "tiny")
    tokens = ChatTokenizer(AutoTokenizer.from_pretrained(tiny))
    trainer = MAGETrainer(
        tiny,
        settings(folder / "run", imports=[module]),
        partial(gym.make, env_id, disable_env_checker=True),
        generator=lambda _: ScriptedGenerator(answer, tokens),
        on_rollout_end=lambda _, trajectories: played.extend(trajectories),
    )
    model = cast(PreTrainedModel, trainer.model)
    before = [weights.detach().clone() for weights in model.parameters()]
    trainer.train()
    changed = any(not old.equal(new) for old, new in zip(before, model.parameters(), strict=True))
    trainer.write_model(folder)
    return trainer.state.global_step, changed, len(played), sum(t.failure is not None for t in played)


def told(agent: str, trajectories: Sequence[Trajectory]) -> Evaluated:
    """What an evaluation gave."""
    whole = [t for t in trajectories if t.failure is None]
    by_episode = zip(*([episode.value for episode in t.episodes] for t in whole), strict=False)
    returns = tuple(sum(values) / len(values) for values in by_episode)
    return Evaluated(agent, len(trajectories), len(trajectories) - len(whole), returns)


def outcome(env_id: str, answer: Callable[[Prompt], str], folder: Path, module: str) -> ForeignOutcome:
    """Trains on an id, which `module` registers, and evaluates there the script and the model that was trained."""
    updates, changed, played, failed = trained(env_id, answer, folder, module)
    tasks = [Task(env_id, seed=seed) for seed in range(TASKS)]
    agents: dict[str, Agent] = {
        "the script that training took its replies from": GeneratorAgent(ScriptedGenerator(answer), "script"),
        "the tiny model after the updates": SavedModelAgent(folder),
    }
    return ForeignOutcome(
        updates=updates,
        changed=changed,
        played=played,
        failed=failed,
        evaluated=tuple(told(name, evaluate(agent, tasks)) for name, agent in agents.items()),
    )


def main(arguments: Sequence[str]) -> int:
    """Plays TextArena's game, and writes what came of it."""
    from benchmarks.peers import arena_env

    with tempfile.TemporaryDirectory() as folder:
        found = outcome(arena_env.ID, guess, Path(folder), arena_env.__name__)
    Path(arguments[0]).write_text(json.dumps(asdict(found)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
