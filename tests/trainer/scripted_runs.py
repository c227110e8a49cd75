"""Short training of a tiny model on a task of one player: some members play an expert's answers, the others fail.

The replies are scripted, all else is real: environment, rollout, returns, advantages, loss and optimiser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from mage_envs.benchmarks.evaluation.run.agents import PolicyAgent
from mage_envs.core import Game, Policy
from mage_envs.text.generation import Completion, Prompt
from mage_envs.trainer import MAGEConfig, MAGETrainer, Step, Trajectory
from mage_envs.trainer.backends.tiny import general_tiny
from mage_envs.trainer.backends.tokens import ChatTokenizer
from mage_envs.trainer.method.advantages import compute_advantages
from mage_envs.wrappers.make import make_meta_env
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator

Make = Callable[[Game], Policy]


class Same:
    """Plays one action, legal or not, for ever."""

    def __init__(self, action: str) -> None:
        self.action = action

    def reset(self, rng: Any) -> None: ...

    def act(self, turn: Any) -> str:
        return self.action


@dataclass
class ScriptedRun:
    """Results of a scripted run."""

    trainer: MAGETrainer
    advantages: list[float] = field(default_factory=list)
    """Of every step of every rollout."""
    moved: float = 0.0
    """The largest change of a parameter."""
    winning: list[float] = field(default_factory=list)
    """Mean log-probability of the first rollout's winning answers, before the run and after it."""
    losing: list[float] = field(default_factory=list)
    successes: list[tuple[int, bool]] = field(default_factory=list)
    """(member, whether its last episode succeeded) of every trajectory."""

    @property
    def log(self) -> dict[str, float]:
        """The last rollout's metrics."""
        return next(log for log in reversed(self.trainer.state.log_history) if "rollout" in log)


def train(
    folder: Path, game: str, expert: Make, loser: Make, *, rollouts: int = 3, seed: int = 42, **env_options: Any
) -> ScriptedRun:
    """Even members of a group play `expert`, odd ones `loser`; with equally many answers, so that neither outweighs the
    other in the mean over tokens."""

    def make_env() -> Any:
        return make_meta_env(game, memory="none", **env_options)

    def generator(trainer: MAGETrainer) -> Any:
        tokens = ChatTokenizer(trainer.processing_class)  # type: ignore[arg-type]
        players: dict[int, tuple[Any, Any]] = {}

        def answer(prompt: Prompt) -> str:
            if prompt.slot not in players:
                generators = [PolicyAgent(make, "").generator(make_env().unwrapped.game) for make in (expert, loser)]
                players.update(
                    (slot, (generators[0], generators[1])) for slot in range(len(trainer.player._envs.in_process))
                )
            member = prompt.seed[1]
            completion: Completion = players[prompt.slot][member % 2].generate([prompt])[0]
            assert completion.error is None, completion.error
            return completion.text

        return ScriptedGenerator(answer, tokens)

    config = MAGEConfig(
        output_dir=str(folder / "run"),
        groups_per_rollout=1,
        num_generations=2,
        max_rollouts=rollouts,
        seed=seed,
        updates_per_rollout=2,
        max_completion_length=64,
        max_prompt_length=16_384,
        learning_rate=3e-3,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        logging_steps=1,
        max_tokens_per_microbatch=16_384,
    )
    run = ScriptedRun(None)  # type: ignore[arg-type]
    first_rollout: list[Trajectory] = []

    def keep(trainer: MAGETrainer, trajectories: Sequence[Trajectory]) -> None:
        run.advantages += [float(a) for a in _flat(compute_advantages(list(trajectories), trainer.credit)[0])]
        run.successes += [(t.member, t.episodes[-1].success) for t in trajectories]
        if not first_rollout:
            first_rollout.extend(trajectories)
            measure(trainer)

    def measure(trainer: MAGETrainer) -> None:
        for member, scores in ((0, run.winning), (1, run.losing)):
            steps = [step for t in first_rollout if t.member == member for step in t.steps]
            scores.append(sum(_log_probability(trainer, step) for step in steps) / len(steps))

    model = general_tiny(folder / "model")
    trainer = run.trainer = MAGETrainer(model, config, make_env, generator=generator, on_rollout_end=keep)
    weights_before = [p.detach().clone() for p in trainer.model.parameters()]
    trainer.train()
    measure(trainer)
    weights_after = [p.detach() for p in trainer.model.parameters()]
    run.moved = max(float((p - q).abs().max()) for p, q in zip(weights_after, weights_before, strict=True))
    return run


def check(run: ScriptedRun) -> None:
    """In each group one member wins and one fails; the model learns to prefer the winner's answers."""
    assert all(success == (member % 2 == 0) for member, success in run.successes)
    assert max(map(abs, run.advantages)) > 0.1
    assert run.moved > 1e-4
    assert run.winning[1] > run.winning[0] + 0.01
    assert run.winning[1] - run.losing[1] > run.winning[0] - run.losing[0]


def _flat(advantages: Any) -> list[float]:
    return [value for part in advantages for value in part]


def _log_probability(trainer: MAGETrainer, step: Step) -> float:
    """Mean log-probability of one answer's tokens."""
    ids = torch.tensor([[*step.prompt_ids, *step.completion_ids]])
    with torch.no_grad():
        logits = trainer.model(ids).logits[0, len(step.prompt_ids) - 1 : -1]
    token_logprobs = torch.log_softmax(logits, -1).gather(1, torch.tensor(step.completion_ids)[:, None])
    return float(token_logprobs.mean())
