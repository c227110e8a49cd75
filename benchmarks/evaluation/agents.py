"""Agents under evaluation: what answers the prompts. All go through the same text pipe as a trained model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Protocol

import numpy as np

from mage_envs.core import Policy, RemembersMetaEpisode, SeesResults, TextGame, Turn
from mage_envs.text.generation import Completion, Generator, Prompt
from opponents import make_opponent
from opponents.llm import shared_endpoint
from trainer.saved import PlaySettings, load_generator
from wrappers import MetaEpisode

REMARK = "No remark."
"""What a policy answers to a request for a reflection."""
AGENT = 1001
"""Role of an agent's own random streams, beside the environment's."""
FORMS: Mapping[str, str] = {
    "policy:NAME": "a registered opponent in the learner's seat, as in policy:kuhn/nash or policy:mcts:1000",
    "scripted:first": "always the first legal action",
    "scripted:last": "always the last legal action",
    "scripted:random": "any legal action",
    "model:FOLDER": "a saved model, as in model:runs/demo; the folder's path alone will do",
    "llm:MODEL@URL": "a model behind an OpenAI-compatible endpoint, as in llm:qwen3:4b@http://localhost:11434/v1",
}
"""Forms that `make_agent` reads."""


class Agent(Protocol):
    """Something to evaluate."""

    name: str

    def generator(self, envs: Sequence[MetaEpisode]) -> Generator:
        """What answers the prompts of slot i, which plays in `envs[i]`."""
        ...


class GeneratorAgent:
    """A generator as it is: a model in memory, a backend of the user's own."""

    def __init__(self, generator: Generator, name: str) -> None:
        self.name = name
        self._generator = generator

    def generator(self, envs: Sequence[MetaEpisode]) -> Generator:
        return self._generator


class SavedModelAgent:
    """A model in a folder, asked as it was trained. Its `settings` name the environment it was trained in."""

    def __init__(self, folder: str | Path) -> None:
        """Reads the settings; the model is loaded when it is seated. Raises FileNotFoundError or ValueError."""
        self.name = f"model:{folder}"
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise FileNotFoundError(f"Agent {self.name!r}: there is no such folder; give a saved model's.")
        self.settings = PlaySettings.load(folder)

    def generator(self, envs: Sequence[MetaEpisode]) -> Generator:
        try:
            generator, _ = load_generator(self.folder, cached=all(env.converses for env in envs))
        except ModuleNotFoundError as error:
            raise ImportError(
                f'Agent {self.name!r} needs {error.name}. Install it with: pip install -e ".[train]"'
            ) from error
        return generator


class PolicyAgent:
    """A policy in the learner's seat; it gets the `Turn` that the prompt describes."""

    def __init__(self, make_policy: Callable[[TextGame], Policy], name: str) -> None:
        """`make_policy` is called once per slot, with a copy of the game that is not played."""
        self.name = name
        self._make_policy = make_policy

    def generator(self, envs: Sequence[MetaEpisode]) -> Generator:
        policies = [self._make_policy(copy(env.game_env.game)) for env in envs]
        for env, policy in zip(envs, policies, strict=True):
            env.game_env.on_result = policy.see_result if isinstance(policy, SeesResults) else None
        return _PolicyGenerator(policies, envs)


class _PolicyGenerator:
    """One policy per slot, reset at every hand with a stream keyed by the task, the member and the hand."""

    def __init__(self, policies: Sequence[Policy], envs: Sequence[MetaEpisode]) -> None:
        self._policies = policies
        self._envs = envs
        self._hands: dict[int, tuple[int, ...]] = {}
        """Slot to the key of the hand that its policy plays."""

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        return [self._answer(prompt) for prompt in prompts]

    def _answer(self, prompt: Prompt) -> Completion:
        style = self._envs[prompt.slot].style
        if prompt.phase == "reflect":
            return Completion(_tagged(REMARK, style.remark_tag))
        try:
            return Completion(_tagged(self._act(prompt), style.action_tag))
        except Exception as error:  # a policy is anybody's code: its failure is data, counted and masked
            return Completion("", error=f"{type(error).__name__}: {error}")

    def _act(self, prompt: Prompt) -> str:
        env, policy = self._envs[prompt.slot].game_env, self._policies[prompt.slot]
        seed, member, call, retry = prompt.seed
        turn = env.turn()
        key = (member, retry, turn.episode, len(env.hands))
        begins = call == 0
        if begins and isinstance(policy, RemembersMetaEpisode):
            policy.begin_meta_episode()
        if begins or self._hands.get(prompt.slot) != key:
            policy.reset(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(AGENT, *key))))
            self._hands[prompt.slot] = key
        return policy.act(turn)


def _tagged(text: str, tag: str | None) -> str:
    return text if tag is None else f"<{tag}>{text}</{tag}>"


class _Placed:
    """Plays the legal action at a fixed place; an empty answer where the game lists none."""

    deterministic = True

    def __init__(self, place: int) -> None:
        self._place = place

    def reset(self, rng: np.random.Generator) -> None: ...

    def act(self, turn: Turn) -> str:
        return turn.legal_actions[self._place] if turn.legal_actions else ""


_SCRIPTS: Mapping[str, Callable[[TextGame], Policy]] = {
    "first": lambda game: _Placed(0),
    "last": lambda game: _Placed(-1),
    "random": lambda game: make_opponent("uniform", game),
}


def make_agent(spec: str) -> Agent:
    """The agent that `spec` names, in one of `FORMS`. Raises ValueError or FileNotFoundError with the remedy."""
    kind, _, rest = spec.partition(":")
    if kind == "policy" and rest:
        return PolicyAgent(lambda game: make_opponent(rest, game), spec)
    if kind == "scripted" and rest in _SCRIPTS:
        return PolicyAgent(_SCRIPTS[rest], spec)
    if kind == "model" and rest:
        return SavedModelAgent(rest)
    if kind == "llm" and rest:
        return GeneratorAgent(shared_endpoint(*rest.split(",")), spec)
    if Path(spec).is_dir():
        return SavedModelAgent(spec)
    raise ValueError(f"Unknown agent {spec!r}: no folder, and none of the forms {', '.join(FORMS)}.")
