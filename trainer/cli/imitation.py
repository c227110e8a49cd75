"""Imitation: a model learns what players reply in a run's own prompts, before its training."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mage_envs.files.bounded import parse_json, read_named
from mage_envs.loading.imports import check_path
from mage_envs.opponents.registry import make_opponent
from mage_envs.progress import Progress
from mage_envs.random.streams import SEED_BITS, Stream, fold
from mage_envs.text.generation import Completion, Generator, Message, Prompt
from mage_envs.trainer.backends.model_folder import load_tokenizer
from mage_envs.trainer.backends.tiny import save_tiny
from mage_envs.trainer.backends.tokens import ChatTokenizer, Ids, PromptFormat
from mage_envs.trainer.backends.weights import load_model, local_folder
from mage_envs.trainer.config.run_settings import RunSettings
from mage_envs.trainer.method.batch import build_rows
from mage_envs.trainer.method.tasks import rollout_specs
from mage_envs.trainer.trl.setup import env_maker, pool_weights
from mage_envs.wrappers.rollout.loop import collect
from mage_envs.wrappers.rollout.policy_generator import PolicyGenerator

RANDOM, POLICY = "scripted:random", "policy:"
"""Players: random legal play, whose whole chats are learned, and policies, of which only the replies are."""
RANDOM_EPISODES, EPISODES = 512, 8192
"""Most meta-episodes of random play, and of each policy by default. Further steps train on the same ones again."""
AT_ONCE = 64
"""Meta-episodes that are played at once."""
SEED = 1 << 32
"""Index of the first rollout of the players' tasks, which no rollout of the training has."""
LEARNING_RATE, BATCH = 3e-4, 16
"""Learning rate for a pretrained model, and rows per step."""


@dataclass(frozen=True)
class Imitation:
    """Settings of an imitation."""

    players: Sequence[str]
    """`scripted:random`, whose whole chats are learned, so that a model learns the form of the texts; `policy:NAME` of
    any registered opponent, of which only the replies are learned; or `@FILE` with replies of runs, as `mage export
    --to sft` writes them."""
    steps: int
    """Optimiser steps."""
    learning_rate: float = LEARNING_RATE
    """Learning rate of the first step. It falls to 0 as a cosine."""
    rows: int = BATCH
    """Rows per step: a chat that continues, or one prompt with its reply."""
    episodes: int = EPISODES
    """Most meta-episodes of each policy."""


@dataclass(frozen=True)
class Example:
    """One chat, or one prompt with its reply."""

    ids: Ids
    targets: tuple[int, ...]
    """Positions of the tokens that are learned."""


def imitating_copy(model: str, folder: Path, config: RunSettings, imitation: Imitation, resumes: bool = False) -> str:
    """Save a copy of a pretrained model after imitation with all its weights; return the folder.

    The weights are float32 during the steps, and are saved in the model's own type.

    Args:
        model: Folder of the model, or its name on the hub.
        folder: Folder to write.
        config: Settings of the run.
        imitation: Players to imitate, and how.
        resumes: True to keep the copy that an earlier process of the run saved.

    Raises:
        ValueError: If the model cannot be loaded, or as `imitate`.
    """
    if resumes and (folder / "config.json").is_file():
        return str(folder)
    source = local_folder(model)
    # transformers declares `float` and `to` without types.
    loaded: Any = load_model(source)
    tokenizer, kind = load_tokenizer(source), loaded.dtype
    bfloat16 = kind is torch.bfloat16
    imitate(loaded.float(), tokenizer, config, imitation, autocast=bfloat16)
    return save_tiny(folder, loaded.to(kind), tokenizer)


def imitate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    config: RunSettings,
    imitation: Imitation,
    autocast: bool = False,
) -> None:
    """Train with AdamW on what players reply in the prompts of a run, in random order.

    Args:
        model: Model to train, on any device.
        config: Settings of the run, whose opponents, memory and prompts are played.
        imitation: Players to imitate, and how.
        autocast: True to multiply matrices in bfloat16, in half the time on a CPU with instructions for it.

    Raises:
        ValueError: If a player is unknown or does not play the game, or if all of its meta-episodes failed.
    """
    tokens = ChatTokenizer(tokenizer, PromptFormat(system_prompt=config.system_prompt, date=config.prompt_date))
    examples: list[Example] = []
    steps, batch_size = imitation.steps, imitation.rows
    for player in imitation.players:
        examples += _examples(player, config, tokens, min(imitation.episodes, steps * batch_size))
    rng = Stream(fold(config.seed, SEED)).generator()
    optimiser = torch.optim.AdamW(model.parameters(), lr=imitation.learning_rate, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    progress, order = Progress(f"Imitating {', '.join(imitation.players)}", steps, "steps"), np.zeros(0, np.int64)
    model.train(True)
    for step in range(steps):
        while len(order) < batch_size:
            order = np.concatenate([order, rng.permutation(len(examples))])
        batch, order = [examples[row] for row in order[:batch_size]], order[batch_size:]
        width = max(len(example.ids) for example in batch)
        # (B, T), padded on the right. Labels are -100 where nothing is learned, and the model shifts them itself.
        ids = torch.full((batch_size, width), tokens.pad_id)
        # Not by the id: a tokenizer may pad with its end token, which the chat contains.
        mask, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
        for row, example in enumerate(batch):
            ids[row, : len(example.ids)] = torch.tensor(example.ids)
            mask[row, : len(example.ids)] = 1
            labels[row, list(example.targets)] = ids[row, list(example.targets)]
        # One context per step: autocast keeps its copies of the weights until the context ends.
        with torch.autocast(model.device.type, torch.bfloat16, enabled=autocast):
            loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
        progress(step + 1)
    model.train(False)


def _examples(player: str, config: RunSettings, tokens: ChatTokenizer, count: int) -> list[Example]:
    """Return what one player shows, in at most `count` meta-episodes."""
    if player == RANDOM:
        num_episodes = min(RANDOM_EPISODES, count)
        chats = [_random_play(env_maker(config)(), tokens, fold(config.seed, number)) for number in range(num_episodes)]
        return [Example(chat, tuple(range(1, len(chat)))) for chat in chats]
    if player.startswith("@"):
        return list(_read_examples(Path(player[1:]).expanduser(), tokens))
    if not player.startswith(POLICY):
        raise ValueError(f"imitate={player!r} must be {RANDOM}, {POLICY}NAME of a registered opponent, or @FILE.")
    make = env_maker(config)
    first_env = make()
    if not first_env.has_wrapper_attr("game"):
        raise ValueError(f"imitate={player} plays games of this package only; use imitate={RANDOM}.")
    specs = rollout_specs(config.env_id, config.seed, SEED, count, 1, pool_weights(config))
    policy = partial(make_opponent, player.removeprefix(POLICY), first_env.get_wrapper_attr("game"))
    envs = [first_env, *(make() for _ in range(min(AT_ONCE, count) - 1))]
    progress, numbers = Progress(f"Playing {player}", count, "meta-episodes"), itertools.count(1)
    trajectories = collect(
        envs,
        _Tokenised(PolicyGenerator(policy), tokens, config.constrained),
        specs,
        on_finished=lambda _, __: progress(next(numbers)),
    )
    # A policy writes no reflections. A weight of 0 leaves their tokens out.
    weights = [[float(step.phase == "play") for step in trajectory.steps] for trajectory in trajectories]
    rows = build_rows(trajectories, weights)
    if not rows:
        raise ValueError(f"imitate={player} played nothing: {trajectories[0].failure}.")
    learned = [tuple(int(position) for position in row.targets[row.advantages > 0]) for row in rows]
    return [
        Example(tuple(map(int, row.ids)), positions) for row, positions in zip(rows, learned, strict=True) if positions
    ]


def _read_examples(path: Path, tokens: ChatTokenizer) -> Iterator[Example]:
    """Yield the replies of a file with a JSON object per line: `prompt` and `completion`, lists of messages.

    Raises ValueError with the number of the line if one has another form, or if there is none.
    """
    check_path(path, "imitate")
    number = 0
    for number, line in enumerate(read_named(path).splitlines(), start=1):
        try:
            value = parse_json(line)
            chat = tuple(Message(str(message["role"]), str(message["content"])) for message in value["prompt"])
            [reply] = (str(message["content"]) for message in value["completion"])
        except (ValueError, LookupError, TypeError) as error:
            raise ValueError(
                f"{path}, line {number}, is not a prompt with one completion ({error}). Write such a file with mage "
                "export RUN --to sft."
            ) from error
        prompt, learned = tokens.encode(Prompt(chat)), tokens.encode_reply(reply)
        yield Example(prompt + learned, tuple(range(len(prompt), len(prompt) + len(learned))))
    if not number:
        raise ValueError(f"{path} is empty. Write such a file with mage export RUN --to sft.")


class _Tokenised:
    """A generator of text whose replies get the ids of prompt and reply, as the model is sampled in the run."""

    def __init__(self, generator: Generator, tokens: ChatTokenizer, constrained: bool) -> None:
        self._generator, self._tokens, self._constrained = generator, tokens, constrained

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        answers = self._generator.generate(prompts)
        return [
            answer
            if answer.error is not None
            else replace(answer, prompt_ids=self._tokens.encode(prompt), ids=self._reply_ids(prompt, answer.text))
            for prompt, answer in zip(prompts, answers, strict=True)
        ]

    def _reply_ids(self, prompt: Prompt, text: str) -> Ids:
        """Return the ids of a reply: those among which a constrained model draws, or those of the chat."""
        if self._constrained and prompt.legal_actions and (ids := self._tokens.prompt_trie(prompt).ids(text)):
            return ids
        return self._tokens.encode_reply(text)


def _random_play(env: gym.Env[str, str], tokens: ChatTokenizer, seed: int) -> Ids:
    """Return the ids of the chat of a meta-episode of random legal play."""
    rng = Stream(fold(seed)).generator()
    _, info = env.reset(seed=seed % 2**SEED_BITS)
    while True:
        legal = info["legal_actions"]
        answer, tag = legal[int(rng.integers(len(legal)))] if legal else "", info["answer_tag"]
        answer = answer if tag is None else f"<{tag}>{answer}</{tag}>"
        chat = tuple(Message(**message) for message in info["messages"])
        _, _, terminated, truncated, info = env.step(answer)
        if terminated or truncated:
            return tokens.encode(Prompt(chat)) + tokens.encode_reply(answer)
