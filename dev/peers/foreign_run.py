"""`python -m dev.peers.foreign_run FILE`: training and evaluation on another project's environment.

The process needs that project and our dependencies. It writes a `ForeignOutcome` as JSON.
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

from dev.peers.foreign import Evaluated, ForeignOutcome
from mage_envs import Prompt, Task
from mage_envs.benchmarks import Agent, GeneratorAgent, SavedModelAgent, evaluate
from mage_envs.trainer import MAGEConfig, MAGETrainer, Trajectory
from mage_envs.trainer.backends.tiny import general_tiny
from mage_envs.trainer.backends.tokens import ChatTokenizer
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator

TASKS = 8
REPLY_TOKENS = 32


def guess(prompt: Prompt, numbers: int = 20) -> str:
    """Return a guess, or a plan if the prompt requests a reflection. Each seed and member has its own order of guesses.

    7 and 20 have no common divisor, so 20 turns guess every number.
    """
    if prompt.phase == "reflect":
        return "<remark>plan</remark>"
    seed, member, turn, _ = prompt.seed
    return f"<action>[{(7 * turn + seed + 3 * member) % numbers + 1}]</action>"


def settings(folder: Path, members: int = 4, imports: Sequence[str] = ()) -> MAGEConfig:
    """Return the settings of two rollouts of one group, with one update each.

    Args:
        folder: Output folder of the trainer.
        members: Number of members of the group.
        imports: Modules that register the environment.
    """
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


def train_tiny(env_id: str, answer: Callable[[Prompt], str], folder: Path, module: str) -> tuple[int, bool, int, int]:
    """Train a tiny model on scripted replies for two updates, and save it to `folder`.

    Args:
        module: Module that registers the id.

    Returns:
        Number of updates, True if the weights changed, number of meta-episodes, and number of failed ones.
    """
    all_trajectories: list[Trajectory] = []
    tiny = general_tiny(folder / "tiny")
    tokens = ChatTokenizer(AutoTokenizer.from_pretrained(tiny))
    trainer = MAGETrainer(
        tiny,
        settings(folder / "run", imports=[module]),
        partial(gym.make, env_id, disable_env_checker=True),
        # A model with random weights would write no legal action, so a script does.
        generator=lambda _: ScriptedGenerator(answer, tokens),
        on_rollout_end=lambda _, trajectories: all_trajectories.extend(trajectories),
    )
    model = cast(PreTrainedModel, trainer.model)
    # Copies, because the optimiser changes the weights in place.
    weights_before = [weights.detach().clone() for weights in model.parameters()]
    trainer.train()
    changed = any(not old.equal(new) for old, new in zip(weights_before, model.parameters(), strict=True))
    trainer.write_model(folder)
    return (
        trainer.state.global_step,
        changed,
        len(all_trajectories),
        sum(t.failure is not None for t in all_trajectories),
    )


def summarise(agent: str, trajectories: Sequence[Trajectory]) -> Evaluated:
    """Return the result of an agent's evaluation."""
    complete = [t for t in trajectories if t.failure is None]
    by_episode = zip(*([episode.value for episode in t.episodes] for t in complete), strict=False)
    returns = tuple(sum(values) / len(values) for values in by_episode)
    return Evaluated(agent, len(trajectories), len(trajectories) - len(complete), returns)


def outcome(env_id: str, answer: Callable[[Prompt], str], folder: Path, module: str) -> ForeignOutcome:
    """Train on an environment, and evaluate the script and the trained model on it.

    Args:
        module: Module that registers the id.
    """
    updates, changed, meta_episodes, failed = train_tiny(env_id, answer, folder, module)
    tasks = [Task(env_id, seed=seed) for seed in range(TASKS)]
    agents: dict[str, Agent] = {
        "the script that training took its replies from": GeneratorAgent(ScriptedGenerator(answer), "script"),
        "the tiny model after the updates": SavedModelAgent(folder),
    }
    return ForeignOutcome(
        updates=updates,
        changed=changed,
        played=meta_episodes,
        failed=failed,
        evaluated=tuple(summarise(name, evaluate(agent, tasks)) for name, agent in agents.items()),
    )


def main(arguments: Sequence[str]) -> int:
    """Train and evaluate on TextArena's game, and write the outcome."""
    # Imported here, so that the other functions can be used without registering the id.
    from dev.peers import arena_env

    with tempfile.TemporaryDirectory() as folder:
        result = outcome(arena_env.ID, guess, Path(folder), arena_env.__name__)
    Path(arguments[0]).write_text(json.dumps(asdict(result)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
