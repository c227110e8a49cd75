"""Exact expected return of a model in each episode: the mean over all possible courses of a meta-episode."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from mage_envs.core import Task
from mage_envs.text.generation import Prompt
from mage_envs.trainer.backends.rows import evaluating
from mage_envs.trainer.backends.tokens import ChatTokenizer
from mage_envs.trainer.config.mage_config import MAGEConfig
from mage_envs.trainer.method.batch import Row, build_rows, collate, micro_batches, split_rows
from mage_envs.trainer.method.loss import score_logits
from mage_envs.trainer.trl.setup import env_maker, pool_weights
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator

ENVIRONMENTS = 256
"""Maximal number of environments that play in parallel."""
TOKENS = 65_536
"""Maximal number of tokens in a forward pass, including padding."""


class ExactPlay:
    """Every sequence of answers against every opponent of a run's pool, each played once.

    The game must have no chance. Each opponent's reply must depend on the earlier moves only. Each answer is one token,
    and every decision has the same number of legal answers. The model's probability of a sequence is then the product
    of the probabilities of its answers.
    """

    def __init__(self, config: MAGEConfig, tokens: ChatTokenizer, decisions: int, answers: int) -> None:
        """Play all sequences.

        Args:
            decisions: Number of decisions of a meta-episode.
            answers: Number of legal answers at each decision.

        Raises:
            ValueError: If the run has no opponents, or if the play has other numbers of decisions or answers.
        """
        pool = pool_weights(config)
        if pool is None:
            raise ValueError(f"{config.env_id} must have a pool of opponents, because returns are averaged over it.")
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
            # A group is one opponent, and a member is one sequence. `call` numbers the decisions.
            _, member, call, _ = prompt.seed
            if len(prompt.legal_actions) != answers:
                raise ValueError(f"A decision has {len(prompt.legal_actions)} answers, not {answers}.")
            return prompt.legal_actions[ways[member][call]]

        envs = [make_env() for _ in range(min(ENVIRONMENTS, len(specs)))]
        trajectories = collect(envs, ScriptedGenerator(answer, tokens), specs)
        if any(trajectory.failure or len(trajectory.steps) != decisions for trajectory in trajectories):
            raise ValueError(f"A meta-episode of {config.env_id} must have {decisions} decisions, each answered.")
        rows = build_rows(trajectories, [[0.0] * decisions for _ in trajectories])
        if len(rows) != len(trajectories):
            raise ValueError("The prompts of a meta-episode must extend each other; use context='conversation'.")
        # Opponents with the same replies lead to the same tokens, so each different row is scored only once.
        numbers: dict[bytes, int] = {}
        self._rows: list[Row] = []
        """Rows without duplicates."""
        for row in rows:
            if numbers.setdefault(row.ids.tobytes(), len(numbers)) == len(self._rows):
                self._rows.append(row)
        total = sum(pool.values())
        shares = np.array([pool[trajectory.task.opponent or ""] / total for trajectory in trajectories])
        earned = np.array(
            [[episode.value / episode.hands for episode in trajectory.episodes] for trajectory in trajectories]
        )
        self._pay = np.zeros((len(self._rows), earned.shape[1]))
        # `np.add.at` adds every occurrence of a repeated index. `+=` would keep only one of them.
        np.add.at(self._pay, [numbers[row.ids.tobytes()] for row in rows], shares[:, None] * earned)
        """(N, K): return of a row in each episode, weighted by the pool shares of the opponents that lead to it."""

    def values(self, model: PreTrainedModel) -> npt.NDArray[np.float64]:
        """Return the model's expected return in each episode (K,), in the game's unit per hand."""
        returns = np.zeros(self._pay.shape[1])
        # `micro_batches` sorts the rows by length, so each row's index is looked up by identity.
        index_by_row = {id(row): number for number, row in enumerate(self._rows)}
        with evaluating(model):
            for rows in micro_batches(self._rows, TOKENS):
                logps = split_rows(self._log_probabilities(model, rows), rows)
                chances = np.exp([float(part.sum(dtype=np.float64)) for part in logps])
                returns += chances @ self._pay[[index_by_row[id(row)] for row in rows]]
        return returns

    def _log_probabilities(self, model: PreTrainedModel, rows: list[Row]) -> torch.Tensor:
        batch = collate(rows, self._pad_id, model.device)
        # Logits only for the columns before an answer. Those of all columns would need far more memory.
        columns, where = torch.unique(batch.columns - 1, return_inverse=True)
        output = model(
            input_ids=batch.ids,
            attention_mask=batch.attention,
            position_ids=batch.positions,
            use_cache=False,
            logits_to_keep=columns,
        )
        return score_logits(output.logits[batch.rows, where], batch, self._temperature, constrained=True).logps
