"""MAGE in one file: a tiny transformer learns, from random weights, to adapt to unknown Kuhn Poker opponents.

The file contains the whole method from top to bottom, in the order and the terms of docs/method.md: collection,
differential rewards, returns, advantages, loss, optimiser step. Only the environment, the tiny model and its tokenizer
are imported. The protocol is `adaptive`. A KL term is left out, because the reference would be a random model.
`trainer/` computes the same advantages and gradients, and adds vLLM, several processes, checkpoints and failures.

    python examples/mini_mage.py --rollouts 60

Symbols: M members of a group, K episodes, V words, B sequences of a batch, T tokens of the longest one, N trained
tokens of a batch.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import torch

import mage_envs  # noqa: F401  (registers the ids)
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.text.words.vocabulary import vocabulary
from mage_envs.trainer.backends.tiny import tiny_model, tiny_tokenizer

GROUPS, MEMBERS = 32, 8
EPISODES = 3
"""K, the number of episodes of a meta-episode, all against the same opponent."""
REMARK_WORDS = 4
"""Limit of a reflection in tokens."""
GAMMA_STEP, GAMMA_EPISODE = 0.95, 0.6
"""gs, the discount per play step inside an episode, and gt, the discount across episodes."""
STEP_WEIGHT = 1.0
"""w in A = A_E + w * A_S."""
CLIP, DUAL_CLIP = 0.2, 3.0
ENTROPY_COEF = 0.03
"""Weight of the entropy bonus. The paper's is .001, but random weights must explore more."""
UPDATES = 4
"""Optimiser steps per rollout. Each meta-episode is in exactly one of them."""
LEARNING_RATE = 2e-3
MAX_GRAD_NORM = 1.0
EVALUATED = 4
"""Meta-episodes of an evaluation per environment."""


# -- 1. A meta-episode: K episodes against one unknown opponent, with a reflection before each but the first


@dataclass
class ModelCall:
    """One reply of the model, which is one training sample: a move in a game, or a reflection between two games."""

    episode: int
    """k. A reflection belongs to the episode after it."""
    phase: str
    """`play` or `reflect`."""
    anchor: str
    """The environment's raw observation. Calls with equal anchors are compared in A_S."""
    legal: tuple[int, ...]
    """Ids of the legal actions, one token each. Empty for a reflection, in which any token may be sampled."""
    start: int
    """Position of the reply's first token in the ids of the meta-episode."""
    logprobs: list[float] = field(default_factory=list)
    """Log-probability of each token of the reply under the sampling weights: log p_old."""
    penalty: float = 0.0


@dataclass
class PlayedMetaEpisode:
    """The record of one meta-episode.

    In the context `conversation` every prompt extends the one before it, so one token sequence holds all calls.
    """

    ids: list[int]
    calls: list[ModelCall] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    """R_k, (K,): five times the chips of episode k."""
    chips: list[float] = field(default_factory=list)


def make_env(memory: str) -> gym.Env[str, str]:
    """Return an environment that plays meta-episodes. The seed of `reset` draws the opponent and all deals."""
    return gym.make(
        "mage/KuhnPoker-Meta-v0",
        disable_env_checker=True,
        opponent="pool:kuhn/paper",
        num_episodes=EPISODES,
        # `both` shows earlier episodes and asks for reflections; `history` only shows earlier episodes.
        memory=memory,
        context="conversation",
        # Prompts are a few words of a small vocabulary, such as `episode 2 first K`, and every action is one word.
        style="words",
        reveal="always",
        length_penalty=0.0,
    )


def make_model(seed: int) -> tuple[Any, Any]:
    """Return a Qwen3 with two layers and random weights, and a tokenizer with one id per word of the game."""
    tokenizer = tiny_tokenizer(vocabulary(KuhnPoker()))
    return tiny_model(len(tokenizer), seed=seed), tokenizer


# -- 2. Collection: all meta-episodes of a rollout advance together, one token per forward pass -----------


def pad_sequences(sequences: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return the sequences as one tensor, (B, T)."""
    # Padding is on the right. In a causal model a token depends on earlier ones only, so the padding changes nothing
    # and no attention mask is needed.
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in sequences], batch_first=True)


def word_logprobs(logits: torch.Tensor, legal: Sequence[tuple[int, ...]]) -> torch.Tensor:
    """Return the log-probabilities of the next token, (N, V), renormalised over the legal ids if there are any."""
    blocked = torch.zeros_like(logits, dtype=torch.bool)
    for row, ids in enumerate(legal):
        if ids:
            blocked[row] = True
            blocked[row, list(ids)] = False
    # The least number instead of -inf, because p * log p must be 0 for a blocked token, and not 0 * -inf.
    return logits.masked_fill(blocked, torch.finfo(logits.dtype).min).log_softmax(-1)


def ask(sequence: PlayedMetaEpisode, tokenizer: Any, observation: str, info: dict[str, Any]) -> None:
    """Append the new part of the prompt to the sequence, and begin the call that answers it."""
    sequence.ids += tokenizer.encode(observation, add_special_tokens=False)
    legal = tuple(tokenizer.convert_tokens_to_ids(list(info["legal_actions"])))
    sequence.calls.append(
        ModelCall(info["episode_index"], info["phase"], info["anchor"], legal=legal, start=len(sequence.ids))
    )


def collect(
    model: Any,
    tokenizer: Any,
    envs: Sequence[gym.Env[str, str]],
    seeds: Sequence[int],
    generator: torch.Generator,
) -> list[PlayedMetaEpisode]:
    """Play one meta-episode per environment by sampling from the model, and return them in the order of the seeds."""
    rollout = []
    for env, seed in zip(envs, seeds, strict=True):
        sequence = PlayedMetaEpisode(ids=[tokenizer.bos_token_id])
        ask(sequence, tokenizer, *env.reset(seed=seed))
        rollout.append(sequence)
    live = list(range(len(envs)))
    while live:
        # logits: (B, V), those after the last token of each live sequence. Each token forwards the whole sequence,
        # which has only some 50 tokens. The code of a key-value cache would be longer than this function.
        with torch.no_grad():
            logits = model(input_ids=pad_sequences([rollout[i].ids for i in live])).logits
        last_columns = torch.tensor([len(rollout[i].ids) - 1 for i in live])
        logps = word_logprobs(logits[torch.arange(len(live)), last_columns], [rollout[i].calls[-1].legal for i in live])
        tokens = torch.multinomial(logps.exp(), 1, generator=generator)
        token_logprobs = logps.gather(1, tokens)[:, 0].tolist()
        for i, token, logprob in zip(list(live), tokens[:, 0].tolist(), token_logprobs, strict=True):
            sequence, call = rollout[i], rollout[i].calls[-1]
            sequence.ids.append(token)
            call.logprobs.append(logprob)
            # An action is one word. A reflection ends with <eos> or at its limit.
            if not call.legal and token != tokenizer.eos_token_id and len(call.logprobs) < REMARK_WORDS:
                continue
            reply = tokenizer.decode(sequence.ids[call.start :], skip_special_tokens=True)
            observation, reward, terminated, _, info = envs[i].step(reply)
            # The environment returns a penalty if a reflection is empty. R_k does not include it.
            call.penalty = info["penalty"]
            if info["episode_end"]:
                sequence.rewards.append(float(reward))
                sequence.chips.append(info["episode_value"])
            if terminated:
                live.remove(i)
            else:
                ask(sequence, tokenizer, observation, info)
    return rollout


# -- 3. Differential rewards and returns (docs/method.md, section 3) --------------------------------------


def differential_rewards(rewards: Sequence[float]) -> list[float]:
    """Return dR_0 = R_0 and dR_k = R_k - R_{k-1}, (K,): equation 5."""
    # The reward is positive if the episode improves on the one before it. To repeat a result earns nothing.
    return [reward - (rewards[k - 1] if k else 0.0) for k, reward in enumerate(rewards)]


def plays_of(sequence: PlayedMetaEpisode) -> list[list[int]]:
    """Return the indices of the play calls of each episode: K lists of T_k indices. Reflections are left out."""
    return [
        [i for i, call in enumerate(sequence.calls) if call.phase == "play" and call.episode == k]
        for k in range(len(sequence.rewards))
    ]


def episode_values(sequence: PlayedMetaEpisode) -> list[float]:
    """Return E_k = dR_k + gt * G_{k+1,0}, (K,): the value of the end of episode k, later episodes included."""
    values = differential_rewards(sequence.rewards)
    lengths = [len(indices) for indices in plays_of(sequence)]
    # Backwards over k, because G_{k+1,0} = gs^(T_{k+1} - 1) * E_{k+1}. G after the last episode is 0.
    for k in reversed(range(len(values) - 1)):
        values[k] += GAMMA_EPISODE * (GAMMA_STEP ** (lengths[k + 1] - 1) * values[k + 1])
    return values


def call_returns(sequence: PlayedMetaEpisode, values: Sequence[float], penalties: Sequence[float]) -> list[float]:
    """Return G of every call: G_{k,t} = gs^(T_k - 1 - t) * E_k less the penalties to come in its episode."""
    returns = [0.0] * len(sequence.calls)
    plays = plays_of(sequence)
    for k, indices in enumerate(plays):
        owed = 0.0
        for back, i in enumerate(reversed(indices)):
            owed = -penalties[i] + GAMMA_STEP * owed
            returns[i] = GAMMA_STEP**back * values[k] + owed
    for i, call in enumerate(sequence.calls):
        # A reflection has the return of the first decision in the episode after it: G_{k,0}.
        if call.phase == "reflect":
            returns[i] = returns[plays[call.episode][0]] - penalties[i]
    return returns


# -- 4. GiGPO advantages, A = A_E + w * A_S (docs/method.md, sections 4 and 6) ----------------------------


def means_by_key(keys: Sequence[Hashable], values: Sequence[float]) -> dict[Hashable, tuple[float, int]]:
    """Return the mean and the number of the values of each key."""
    values_by_key: dict[Hashable, list[float]] = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        values_by_key[key].append(value)
    # If all values are equal, their mean must be exactly this value. A rounded mean would give an advantage to members
    # that did the same.
    return {
        key: (group[0] if min(group) == max(group) else float(np.mean(group)), len(group))
        for key, group in values_by_key.items()
    }


def group_advantages(group: Sequence[PlayedMetaEpisode]) -> list[list[float]]:
    """Return one advantage per call of each member, [M][calls].

    The members met the same opponent and the same deals, so their means are baselines: only the model's own choices
    differ.
    """
    calls = [call for member_play in group for call in member_play.calls]

    # Penalties are centred over the calls of the same episode and phase (section 6.13), [M][calls]. If they
    # were not, equal members with equal penalties would all get the same negative advantage.
    due = means_by_key([(call.episode, call.phase) for call in calls], [call.penalty for call in calls])
    penalties = [[c.penalty - due[c.episode, c.phase][0] for c in member_play.calls] for member_play in group]

    # E_k is centred per episode over the members (section 6.3), [M][K]. So is dR_k below.
    episodes = [k for _ in group for k in range(EPISODES)]
    values = [episode_values(member_play) for member_play in group]
    usual = means_by_key(episodes, [value for member in values for value in member])
    values = [[value - usual[k][0] for k, value in enumerate(member)] for member in values]
    returns = [call_returns(*member) for member in zip(group, values, penalties, strict=True)]

    # A_E: dR of the call's episode (0 for a reflection) less its penalty, minus the members' mean dR.
    rewards = [differential_rewards(member_play.rewards) for member_play in group]
    paid = means_by_key(episodes, [reward for member in rewards for reward in member])

    # A_S: G less the mean G of the calls with the same observation, in any episode. Reflections are compared with those
    # before the same episode. If there is only one call to compare, A_S is 0.
    def cluster(call: ModelCall) -> Hashable:
        return ("play", call.anchor) if call.phase == "play" else ("reflect", call.episode)

    cluster_means = means_by_key([cluster(call) for call in calls], [value for member in returns for value in member])

    advantages: list[list[float]] = []
    for m, member_play in enumerate(group):
        advantages.append([])
        for call, value, penalty in zip(member_play.calls, returns[m], penalties[m], strict=True):
            by_episode = -penalty
            if call.phase == "play":
                by_episode = (rewards[m][call.episode] - penalty) - paid[call.episode][0]
            mean, count = cluster_means[cluster(call)]
            by_step = value - mean if count > 1 else 0.0
            advantages[m].append(by_episode + STEP_WEIGHT * by_step)
    return advantages


# -- 5. The clipped policy loss (docs/method.md, section 5) -----------------------------------------------


def policy_loss(model: Any, batch: Sequence[PlayedMetaEpisode], advantages: Sequence[Sequence[float]]) -> torch.Tensor:
    """Return the loss of a mini-batch: a mean over all tokens that the model wrote in it."""
    # One entry per trained token, N in all: (row, column) in the batch, the legal ids, log p_old and A. All tokens of a
    # reply share its advantage. Tokens of prompts are context only.
    tokens = [
        (row, call.start + offset, call.legal, old, advantage)
        for row, (sequence, member) in enumerate(zip(batch, advantages, strict=True))
        for call, advantage in zip(sequence.calls, member, strict=True)
        for offset, old in enumerate(call.logprobs)
    ]
    rows, columns, legal, old, weights = zip(*tokens, strict=True)
    at, column = torch.tensor(rows), torch.tensor(columns)
    ids = pad_sequences([sequence.ids for sequence in batch])
    # The logits at a column predict the token at the next one. logps: (N, V). token_logps: log p of these tokens, (N,).
    logps = word_logprobs(model(input_ids=ids).logits[at, column - 1], legal)
    token_logps = logps.gather(1, ids[at, column][:, None])[:, 0]
    # r = p / p_old, (N,). It is 1 in the first update of a rollout, and moves as the updates change the weights.
    ratio = torch.exp(token_logps - torch.tensor(old))
    advantage = torch.tensor(weights)
    # -min(r * A, clip(r) * A): beyond the clip range no gradient increases the change further. If A < 0, the
    # minimum does not bound a large r, so the dual clip does.
    clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
    loss = -torch.minimum(ratio.clamp(max=DUAL_CLIP) * advantage, clipped * advantage)
    entropy = -(logps.exp() * logps).sum(-1)
    return (loss - ENTROPY_COEF * entropy).mean()


# -- 6. Training ------------------------------------------------------------------------------------------


def evaluate(model: Any, tokenizer: Any, envs: Sequence[gym.Env[str, str]]) -> list[float]:
    """Return the mean chips of each episode, (K,), over the same meta-episodes at each call."""
    # Every meta-episode has its own deals here. A rollout has only one draw of deals per group, so the means of
    # rollouts are several times as noisy.
    seeds = np.random.default_rng(1).integers(2**31, size=(EVALUATED, len(envs))).tolist()
    generator = torch.Generator().manual_seed(1)
    sequences = [
        sequence for batch_seeds in seeds for sequence in collect(model, tokenizer, envs, batch_seeds, generator)
    ]
    return list(np.mean([sequence.chips for sequence in sequences], axis=0).tolist())


def train(rollouts: int, seed: int = 0, memory: str = "both", eval_interval: int = 10) -> list[list[float]]:
    """Train a model and print its value by episode. Return these values, [evaluations][K]."""
    model, tokenizer = make_model(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.01)
    generator, rng = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    envs = [make_env(memory) for _ in range(GROUPS * MEMBERS)]
    values: list[list[float]] = []
    for number in range(rollouts + 1):
        if number % eval_interval == 0 or number == rollouts:
            values.append(evaluate(model, tokenizer, envs))
            print(
                f"rollouts {number:4}: chips by episode {' '.join(f'{chips:+.3f}' for chips in values[-1])}", flush=True
            )
        if number == rollouts:
            break
        # The members of a group share a seed, and with it the opponent, the seat and all deals.
        seeds = np.repeat(rng.integers(2**31, size=GROUPS), MEMBERS).tolist()
        rollout = collect(model, tokenizer, envs, seeds, generator)
        advantages = []
        for start in range(0, len(rollout), MEMBERS):
            advantages += group_advantages(rollout[start : start + MEMBERS])
        # One pass over the rollout in shuffled mini-batches.
        for part in np.array_split(rng.permutation(len(rollout)), UPDATES):
            loss = policy_loss(model, [rollout[i] for i in part], [advantages[i] for i in part])
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
            optimizer.step()
            optimizer.zero_grad()
    return values


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rollouts", type=int, default=60, help="number of training rollouts (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights, tasks and samples (default: 0)")
    parser.add_argument(
        "--memory",
        choices=["both", "history"],
        default="both",
        help="memory between episodes: both, or history, without reflections (default: both)",
    )
    parser.add_argument(
        "--every", type=int, default=10, help="number of rollouts between two evaluations (default: 10)"
    )
    options = parser.parse_args(arguments)
    train(options.rollouts, options.seed, options.memory, options.every)


if __name__ == "__main__":
    # The matrices are so small that several threads cost more time than they save.
    torch.set_num_threads(1)
    main()
