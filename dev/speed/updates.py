"""Useful tokens per CPU second of an update, beside TRL's own update with the same rows and the same gradient.

`python -m dev.speed.updates`. Both train the same model calls with the same old and reference log-probabilities.
Ours uses `MAGETrainer` with micro-batches by tokens. TRL's uses `GRPOTrainer._compute_loss` with the padding of
`GRPOTrainer._generate_and_score_completions`. Both have the same limit of tokens per forward pass. They take turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from dev.speed.tokens import PAPER_BUDGET, PAPER_UPDATE, Call, paper_calls

if TYPE_CHECKING:
    import torch

    from mage_envs.trainer.method.batch import Row
    from mage_envs.trainer.trl.mage_trainer import MAGETrainer

LEAST_RATIO, MOST_DIFFERENCE = 1.5, 1e-5
"""Lower limit of the ratio of useful tokens per CPU second (ours to TRL's), and upper limit of the difference of the
gradients as a share of the largest entry."""
VOCABULARY = 256
"""Upper limit of the token ids in the random rows. The ids below it are bytes."""
SCALE = 8
"""Divisor of the paper's lengths of prompts and replies and of its tokens per forward pass, to fit a small CPU."""


@dataclass(frozen=True)
class UpdateSide:
    """CPU seconds of an update by one side, and its gradient."""

    seconds: float
    gradient: torch.Tensor


def scale_calls(count: int, scale: int = SCALE) -> list[Call]:
    """Return a mini-batch of calls with the paper's lengths, divided by `scale`."""
    return [Call(max(call.prompt // scale, 1), max(call.reply // scale, 1)) for call in paper_calls(count)]


def rows_of(calls: Sequence[Call], vocabulary: int) -> list[Row]:
    """Return rows of random tokens with these lengths: one row per call, because fresh prompts are not merged."""
    from mage_envs.trainer.method.batch import Row

    rng = np.random.default_rng(0)
    rows = []
    for call in calls:
        # About log(1/256), the log-probability of a token under the untrained model, so that ratios are near 1.
        old = -5.5 + rng.normal(0.0, 0.3, call.reply).astype(np.float32)
        rows.append(
            Row(
                # Any ids of bytes. The special tokens of the byte tokenizer have ids from 256 on.
                ids=rng.integers(4, vocabulary, call.length),
                targets=np.arange(call.prompt, call.length),
                advantages=np.full(call.reply, rng.normal(), np.float32),
                sampling=None,
                legal=(),
                lengths=(call.reply,),
                old=old,
                reference=old + rng.normal(0.0, 0.1, call.reply).astype(np.float32),
            )
        )
    return rows


def make_trainer(folder: Path) -> MAGETrainer:
    """Return a trainer of a small model. Its environment is never played."""
    import mage_envs  # noqa: F401  (registers the ids)
    from mage_envs.trainer import MAGEConfig, MAGETrainer
    from mage_envs.trainer.backends.tiny import byte_tokenizer, save_tiny, tiny_model

    tokenizer = byte_tokenizer()
    model = tiny_model(len(tokenizer), hidden=128, heads=2, max_positions=16_384)
    config = MAGEConfig(
        output_dir=str(folder / "run"),
        groups_per_rollout=1,
        num_generations=2,
        beta=0.1,
        # TRL's entropy bonus is a mean over each forward pass, so it depends on the split of the rows.
        entropy_coef=0.0,
        max_rollouts=1,
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    make_env = partial(gym.make, "mage/KuhnPoker-Meta-v0")
    return MAGETrainer(save_tiny(folder / "model", model, tokenizer), config, make_env)


def pad_rows(rows: Sequence[Row], pad: int, prompt: int, reply: int, tokens: int) -> dict[str, torch.Tensor]:
    """Return rows in TRL's form: prompts padded on the left and replies on the right, to the longest of the batch.

    Args:
        rows: Rows (B) of a forward pass.
        pad: Token id of the padding.
        prompt: Length P of the longest prompt of the whole batch.
        reply: Length R of the longest reply of the whole batch.
        tokens: Number of trained tokens of the whole batch, by which TRL divides the loss.

    Returns:
        Inputs of `GRPOTrainer._compute_loss`: tensors (B, P) of prompts, (B, R) of replies, and (B,) of advantages.
    """
    import torch

    def full(width: int, value: float, dtype: torch.dtype) -> torch.Tensor:
        return torch.full((len(rows), width), value, dtype=dtype)

    inputs = {
        "prompt_ids": full(prompt, pad, torch.long),
        "prompt_mask": full(prompt, 0, torch.long),
        "completion_ids": full(reply, pad, torch.long),
        "completion_mask": full(reply, 0, torch.long),
        "old_per_token_logps": full(reply, 0, torch.float32),
        "ref_per_token_logps": full(reply, 0, torch.float32),
    }
    for index, row in enumerate(rows):
        count = len(row.targets)
        start = row.length - count
        inputs["prompt_ids"][index, prompt - start :] = torch.from_numpy(row.ids[:start])
        inputs["prompt_mask"][index, prompt - start :] = 1
        inputs["completion_ids"][index, :count] = torch.from_numpy(row.ids[start:])
        inputs["completion_mask"][index, :count] = 1
        inputs["old_per_token_logps"][index, :count] = torch.as_tensor(row.old)
        inputs["ref_per_token_logps"][index, :count] = torch.as_tensor(row.reference)
    inputs["advantages"] = torch.tensor([row.advantages[0] for row in rows])
    inputs["num_items_in_batch"] = torch.tensor(tokens)
    return inputs


def ours(trainer: MAGETrainer, rows: Sequence[Row], budget: int) -> None:
    """Compute the gradient of the update with our trainer, and leave it in the model.

    Args:
        budget: Maximal number of tokens per forward pass.
    """
    from mage_envs.trainer.method.batch import rank_share

    model: Any = trainer.model
    trainer.updates.backward(model, rank_share(rows, 0, 1, budget, trainer.updates.pad_id))


def trls(trainer: MAGETrainer, rows: Sequence[Row], budget: int) -> None:
    """Compute the gradient of the update with TRL's loss, and leave it in the model. The arguments are as in `ours`."""
    prompt = max(row.length - len(row.targets) for row in rows)
    reply = max(len(row.targets) for row in rows)
    tokens = sum(len(row.targets) for row in rows)
    # TRL divides the loss by this number, which the training loop would set.
    trainer.current_gradient_accumulation_steps = 1
    at_once = max(budget // (prompt + reply), 1)
    for start in range(0, len(rows), at_once):
        inputs = pad_rows(rows[start : start + at_once], trainer.updates.pad_id, prompt, reply, tokens)
        loss: Any = trainer._compute_loss(trainer.model, inputs)  # type: ignore[no-untyped-call]
        loss.backward()


def time_update(trainer: MAGETrainer, update: Callable[[], None]) -> UpdateSide:
    """Time an update that starts from a gradient of zero."""
    import torch

    model: Any = trainer.model
    model.zero_grad()
    start_time = time.process_time()
    update()
    seconds = time.process_time() - start_time
    gradients = [weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]
    return UpdateSide(seconds, torch.cat(gradients))


def compare(rows: Sequence[Row], budget: int, trainer: MAGETrainer, rounds: int) -> tuple[float, float, float]:
    """Compare both updates on the same rows.

    Args:
        budget: Maximal number of tokens per forward pass.
        rounds: Number of timed updates of each side, whose median counts.

    Returns:
        Useful tokens per CPU second, ours and TRL's, and the largest difference of the gradients as a share of the
        largest entry.
    """
    model: Any = trainer.model
    model.train()
    sides: tuple[list[UpdateSide], list[UpdateSide]] = ([], [])
    # The first round only warms up.
    for _ in range(rounds + 1):
        for side, update in zip(sides, (ours, trls), strict=True):
            side.append(time_update(trainer, partial(update, trainer, rows, budget)))
    useful = sum(row.length for row in rows)
    own_rate, trl_rate = (useful / statistics.median(side_run.seconds for side_run in side[1:]) for side in sides)
    mine, theirs = (side[-1].gradient for side in sides)
    return own_rate, trl_rate, float((mine - theirs).abs().max() / theirs.abs().max())


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line. Return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m dev.speed.updates", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--calls", type=int, default=PAPER_UPDATE, metavar="N", help=f"model calls of the update ({PAPER_UPDATE})"
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="timed updates of each side (default: 3)")
    options = parser.parse_args(arguments)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(Path(folder))
        rows = rows_of(scale_calls(options.calls), VOCABULARY)
        mine, theirs, difference = compare(rows, PAPER_BUDGET // SCALE, trainer, options.rounds)
    print(
        f"useful tokens per CPU second: ours {mine:,.0f}, TRL {theirs:,.0f}, ratio {mine / theirs:.2f}; "
        f"gradients differ by {difference:.1e} of the largest entry"
    )
    missed = mine / theirs < LEAST_RATIO or difference > MOST_DIFFERENCE
    if missed:
        print(f"not reached: ratio {LEAST_RATIO:g}, difference {MOST_DIFFERENCE:g}", file=sys.stderr)
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
