"""Agents under evaluation: what answers the prompts. All go through the same text pipe as a trained model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mage_envs.arguments import nearest_name
from mage_envs.core import BY_THE_RULES, Game, HandResult, Policy, RemembersMetaEpisode, SeesResults, Turn
from mage_envs.exceptions import reason_of, stops
from mage_envs.randomness import Streams
from mage_envs.text.generation import Completion, Generator, Prompt
from opponents import list_opponents, make_opponent
from opponents.llm import AnswerStream, EndpointGenerator, shared_endpoint
from trainer.presets import reply_limit
from trainer.quiet import quieten
from trainer.saved import PlaySettings, load_generator

REPLY_DEADLINE_S = 600
"""Seconds for one reply of a model behind an endpoint, unless its name gives a deadline."""
REMARK = "No remark."
"""What a policy answers to a request for a reflection."""
AGENT = 2
"""Role of an agent's own random streams, beside the environment's `GAME`, `POOL` and `SEATS`."""
FORMS: Mapping[str, str] = {
    "policy:NAME": "a registered opponent in the learner's seat, as in policy:kuhn/nash or policy:mcts:1000",
    "scripted:first": "always the first legal action",
    "scripted:last": "always the last legal action",
    "scripted:random": "any legal action",
    "model:FOLDER": "a saved model, or a training checkpoint, as in model:runs/demo; the folder's path alone will do, "
    "and so will checkpoint:FOLDER, its name as an opponent",
    "llm:MODEL@URL": "a model behind an OpenAI-compatible endpoint, as in llm:qwen3:4b@http://localhost:11434/v1; "
    "a second @URL names another server of it",
}
"""Forms that `make_agent` reads."""


class Agent(Protocol):
    """Something to evaluate."""

    name: str

    def generator(self, game: Game) -> Generator:
        """What answers the prompts; `game` is one of the kind that is played, and is not played itself."""
        ...


class GeneratorAgent:
    """A generator as it is: a model in memory, a backend of the user's own."""

    def __init__(self, generator: Generator, name: str, sampling: Mapping[str, float] | None = None) -> None:
        """`sampling`: how its replies are sampled, as the records are to tell it."""
        self.name = name
        self.sampling = sampling
        self._generator = generator

    def generator(self, game: Game) -> Generator:
        return self._generator


class EndpointAgent:
    """A model behind an endpoint. Its replies may be as long as the game's presets allow, unless its name says less."""

    def __init__(self, name: str, endpoint: str, options: Sequence[str], sampling: Mapping[str, float] | None) -> None:
        """Raises ValueError for a bad name."""
        self.name = name
        self.sampling = sampling
        self._endpoint = endpoint
        self._options = (*options, *(f"{key}={value:g}" for key, value in (sampling or {}).items()))
        _endpoints(endpoint, *self._options)  # a bad name ends the command before anything is played

    def generator(self, game: Game) -> Generator:
        return _endpoints(self._endpoint, *self._options_for(game.facts.name))

    def request(self, game_name: str) -> dict[str, Any]:
        """Return the parameters of its requests in that game, limits and sampling included, for the records."""
        model, *urls = _servers(self._endpoint)
        return shared_endpoint(f"{model}@{urls[0]}", *self._options_for(game_name)).parameters

    def _options_for(self, game_name: str) -> tuple[str, ...]:
        given = {option.partition("=")[0] for option in self._options}
        options = self._options
        if given.isdisjoint(("max_tokens", "max_completion_tokens")):
            options = (*options, f"max_tokens={reply_limit(game_name)}")
        # A local server takes minutes for thousands of tokens.
        return options if "deadline" in given else (*options, f"deadline={REPLY_DEADLINE_S}")


class SavedModelAgent:
    """A model in a folder, asked as it was trained. Its `settings` name the environment it was trained in."""

    def __init__(self, folder: str | Path, sampling: Mapping[str, float] | None = None) -> None:
        """Reads the settings; the model is loaded when it is seated. `sampling` replaces fields of the trainer's
        `Sampling`. Raises FileNotFoundError or ValueError."""
        self.sampling = sampling
        self.name = f"model:{folder}"
        self.folder = Path(folder).absolute()  # it is loaded later, when other code may have changed the folder
        if not self.folder.is_dir():
            raise FileNotFoundError(f"Agent {self.name!r}: there is no such folder; give a saved model's.")
        self.settings = PlaySettings.load(folder)

    def request(self, game_name: str) -> dict[str, Any]:
        """Return how its replies are sampled, for the records; it is the same in every game."""
        own = {"max_tokens": self.settings.max_new_tokens, "temperature": self.settings.temperature}
        return own | dict(self.sampling or {})

    def generator(self, game: Game) -> Generator:
        converses = self.settings.env_kwargs.get("context") == "conversation"
        try:
            quieten()
            generator, _ = load_generator(self.folder, cached=converses, **(self.sampling or {}))
        except ModuleNotFoundError as error:
            raise ImportError(
                f'Agent {self.name!r} needs {error.name}. Install it with: pip install "mage-envs[train]"'
            ) from error
        return generator


class PolicyAgent:
    """A policy in the learner's seat; it plays by the `info` that came with the prompt."""

    def __init__(self, make_policy: Callable[[Game], Policy], name: str) -> None:
        """`make_policy` is called for each meta-episode that is played at the same time as others."""
        self.name = name
        self._make_policy = make_policy

    def generator(self, game: Game) -> Generator:
        return _PolicyGenerator(partial(self._make_policy, game))

    def policy(self, game: Game) -> Policy:
        """A new one of what plays."""
        return self._make_policy(game)


@dataclass
class _SeatedPolicy:
    """The policy of a slot, and where its meta-episode is."""

    policy: Policy
    hand: tuple[int, ...] = ()
    """Key of the hand that it plays; empty before the first."""
    episode: int = 0

    def begin(self) -> None:
        """Starts a meta-episode."""
        self.hand = ()
        if isinstance(self.policy, RemembersMetaEpisode):
            self.policy.begin_meta_episode()

    def hear(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Tells the policy of the hands that ended by the rules since its last answer."""
        if not isinstance(self.policy, SeesResults):
            return
        for result in (HandResult(**told) for told in results):
            if result.ended_by == BY_THE_RULES:
                self.policy.see_result(
                    Turn(
                        player=result.seat,
                        observation=result.observation,
                        legal_actions=(),
                        information_state=result.information_state,
                        episode=self.episode,
                        success=result.success,
                    )
                )

    def act(self, prompt: Prompt) -> str:
        """The action; a new hand starts the policy anew, with a stream keyed by task, member, retry and hand."""
        info, (seed, member, _, retry) = prompt.info, prompt.seed
        observation = info.get("anchor", prompt.messages[-1].content)
        turn = Turn(
            player=info.get("seat", 0),
            observation=observation,
            legal_actions=prompt.legal_actions,
            information_state=info.get("information_state", observation),
            episode=info.get("episode_index", 0),
            history=tuple(info.get("history", ())),
            task=info.get("task"),
        )
        number = info.get("hand", 0)
        key = (seed, member, retry, turn.episode, number)
        if key != self.hand:
            self.hand, self.episode = key, turn.episode
            self.policy.reset(Streams(seed, member, retry).at(AGENT, turn.episode, number).generator())
        return self.policy.act(turn)


class _PolicyGenerator:
    """One policy per slot."""

    def __init__(self, make_policy: Callable[[], Policy]) -> None:
        """Makes the first policy, so that what makes that impossible is told before anything is played."""
        self._make_policy = make_policy
        self._spare = [make_policy()]
        self._policies: dict[int, _SeatedPolicy] = {}

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        return [self._answer(prompt) for prompt in prompts]

    def _answer(self, prompt: Prompt) -> Completion:
        seated = self._policies.get(prompt.slot)
        if seated is None:
            policy = self._spare.pop() if self._spare else self._make_policy()
            seated = self._policies[prompt.slot] = _SeatedPolicy(policy)
        try:
            if prompt.seed[2] == 0:
                seated.begin()
            seated.hear(prompt.info.get("hand_results", ()))
            text = REMARK if prompt.phase == "reflect" else seated.act(prompt)
        except BaseException as error:  # a policy is anybody's code: its failure is data, counted and masked
            if stops(error):
                raise
            return Completion("", error=reason_of(error))
        tag = prompt.info.get("answer_tag")
        return Completion(text if tag is None else f"<{tag}>{text}</{tag}>")


class _Placed:
    """Plays the legal action at a fixed place; an empty answer where the game lists none."""

    def __init__(self, place: int) -> None:
        self._place = place

    def reset(self, rng: np.random.Generator) -> None: ...

    def act(self, turn: Turn) -> str:
        return turn.legal_actions[self._place] if turn.legal_actions else ""


_SCRIPTS: Mapping[str, Callable[[Game], Policy]] = {
    "first": lambda game: _Placed(0),
    "last": lambda game: _Placed(-1),
    "random": lambda game: make_opponent("uniform", game),
}


def _endpoints(endpoint: str, *options: str) -> EndpointGenerator | AnswerStream:
    """The endpoint of `MODEL@URL`, or what asks the least busy of those of `MODEL@URL@URL`."""
    model, *urls = _servers(endpoint)
    if len(urls) < 2:
        return shared_endpoint(endpoint, *options)
    return AnswerStream([shared_endpoint(f"{model}@{url}", *options) for url in dict.fromkeys(urls)])


def _servers(endpoint: str) -> list[str]:
    """Return the model and the addresses of `MODEL@URL@URL`."""
    return re.split(r"@(?=https?://)", endpoint)


def make_agent(spec: str, sampling: Mapping[str, float] | None = None) -> Agent:
    """The agent that `spec` names, in one of `FORMS`; `sampling` (`benchmarks.evaluation.sampling`) is for models.

    Raises ValueError or FileNotFoundError with the remedy.
    """
    kind, _, rest = spec.partition(":")
    saved = kind in ("model", "checkpoint")
    models = (saved and rest) or (kind not in ("policy", "scripted", "llm") and Path(spec).is_dir() and spec)
    if models:
        return SavedModelAgent(models, sampling)
    if kind == "llm" and rest:
        endpoint, *options = rest.split(",")
        return EndpointAgent(spec, endpoint, options, sampling)
    if sampling:
        raise ValueError(f"Agent {spec!r} is no model, so that nothing is sampled; leave the sampling out.")
    if kind == "policy" and rest:
        return PolicyAgent(lambda game: make_opponent(rest, game), spec)
    if kind == "scripted" and rest in _SCRIPTS:
        return PolicyAgent(_SCRIPTS[rest], spec)
    policies = [f"policy:{name}" for name in list_opponents()]
    known = policies + [f"scripted:{name}" for name in _SCRIPTS]
    hint = f" Did you mean 'policy:{spec}'?" if f"policy:{spec}" in policies else nearest_name(spec, known)
    raise ValueError(f"Unknown agent {spec!r}: no folder, and none of the forms {', '.join(FORMS)}.{hint}")


def split_memory(spec: str) -> tuple[str, str | None]:
    """`AGENT+MEMORY` apart; None where no memory is named. A `+` in a path or a model's name stands."""
    agent, plus, memory = spec.rpartition("+")
    named = memory.partition(":")[0]
    if not plus or not agent or not named or "@" in named or Path(spec).exists():
        return spec, None
    return agent, memory
