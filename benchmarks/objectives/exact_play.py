"""What a model earns in each episode, exactly: the mean over all ways in which a meta-episode can go."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from mage_envs.core import Task
from mage_envs.text.generation import Prompt
from trainer.batch import Row, build_rows, collate, micro_batches, split_rows
from trainer.config import MAGEConfig
from trainer.generation import ScriptedGenerator
from trainer.local_model import evaluating
from trainer.loss import score_logits
from trainer.rollout import RolloutSpec, collect
from trainer.setup import env_maker, pool_weights
from trainer.tokens import ChatTokenizer

ENVIRONMENTS = 256
"""That play the ways side by side."""
TOKENS = 65_536
"""Of a forward pass, padding included."""


class ExactPlay:
    """All sequences of answers to all opponents of a run's pool, each played once.

    For games without chance, opponents whose replies follow from what was played, and answers of one token among as
    many legal ones at every decision; a model's probability of a sequence is then the product of its answers'.
    """

    def __init__(self, config: MAGEConfig, tokens: ChatTokenizer, decisions: int, answers: int) -> None:
        """`decisions`: that a meta-episode has; `answers`: that each decision has. Raises ValueError where an
        opponent has no name, or where a meta-episode has other numbers of these.
        """
        pool = pool_weights(config)
        if pool is None:
            raise ValueError(f"{config.env_id} has no opponents, and so no pool to average over.")
        ways = list(product(range(answers), repeat=decisions))
        self._pad_id = tokens.pad_id
        self._temperature = config.temperature
        make_env = env_maker(config)
        specs = [
            RolloutSpec(Task(config.env_id, name, None, 0), group, member)
            for group, name in enumerate(pool)
            for member in range(len(ways))
        ]

        def answer(prompt: Prompt) -> str:
            _, member, call, _ = prompt.seed
            if len(prompt.legal_actions) != answers:
                raise ValueError(f"A decision has {len(prompt.legal_actions)} answers, not {answers}.")
            return prompt.legal_actions[ways[member][call]]

        envs = [make_env() for _ in range(min(ENVIRONMENTS, len(specs)))]
        played = collect(envs, ScriptedGenerator(answer, tokens), specs)
        if any(trajectory.failure or len(trajectory.steps) != decisions for trajectory in played):
            raise ValueError(f"A meta-episode of {config.env_id} has not {decisions} decisions, each answered.")
        rows = build_rows(played, [[0.0] * decisions for _ in played])
        if len(rows) != len(played):
            raise ValueError("The prompts of a meta-episode must extend each other; use context='conversation'.")
        numbers: dict[bytes, int] = {}
        self._rows: list[Row] = []
        """Those that differ."""
        for row in rows:
            if numbers.setdefault(row.ids.tobytes(), len(numbers)) == len(self._rows):
                self._rows.append(row)
        total = sum(pool.values())
        shares = np.array([pool[trajectory.task.opponent or ""] / total for trajectory in played])
        earned = np.array([[one.value / one.hands for one in trajectory.episodes] for trajectory in played])
        self._pay = np.zeros((len(self._rows), earned.shape[1]))
        np.add.at(self._pay, [numbers[row.ids.tobytes()] for row in rows], shares[:, None] * earned)
        """(N, K): what a row pays in each episode, times the share of the opponents with which it comes about."""

    def values(self, model: PreTrainedModel) -> npt.NDArray[np.float64]:
        """(K,): the expected return of each episode, in the game's unit per hand."""
        found = np.zeros(self._pay.shape[1])
        place = {id(row): number for number, row in enumerate(self._rows)}
        with evaluating(model):
            for rows in micro_batches(self._rows, TOKENS):
                logps = split_rows(self._log_probabilities(model, rows), rows)
                chances = np.exp([float(part.sum(dtype=np.float64)) for part in logps])
                found += chances @ self._pay[[place[id(row)] for row in rows]]
        return found

    def _log_probabilities(self, model: PreTrainedModel, rows: list[Row]) -> torch.Tensor:
        batch = collate(rows, self._pad_id, model.device)
        columns, where = torch.unique(batch.columns - 1, return_inverse=True)
        output = model(
            input_ids=batch.ids,
            attention_mask=batch.attention,
            position_ids=batch.positions,
            use_cache=False,
            logits_to_keep=columns,
        )
        return score_logits(output.logits[batch.rows, where], batch, self._temperature, constrained=True).logps
