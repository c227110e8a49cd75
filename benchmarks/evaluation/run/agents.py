"""Agents under evaluation: generators of replies. All of them use the same text interface as a trained model.

An agent imports inside its methods what it alone needs: a policy needs neither a server's client nor a saved model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mage_envs.benchmarks.evaluation.run.function_agent import ABOUT, FORM, FunctionAgent, names_function
from mage_envs.benchmarks.evaluation.run.hugging_face import HuggingFaceAgent, LocalAgent, local_generator
from mage_envs.core import (
    Game,
    Policy,
    Turn,
)
from mage_envs.loading.arguments import nearest_name, parse
from mage_envs.loading.defaults import fill_in
from mage_envs.loading.imports import NoSuchModule
from mage_envs.opponents import list_opponents, make_opponent
from mage_envs.opponents.registry import portable_spec
from mage_envs.text.generation import Generator
from mage_envs.wrappers.rollout.policy_generator import NONE, OTHER, PolicyGenerator

if TYPE_CHECKING:
    from mage_envs.opponents.llm import AnswerStream, EndpointGenerator
    from mage_envs.opponents.llm.endpoint_spec import SharedEndpoint

REPLY_DEADLINE_S = 600
"""Timeout in seconds for one reply of a model behind an endpoint, unless its name sets a deadline."""
NO_MODEL = ("policy", "scripted")
"""Kinds of agents that read no prompts."""
MODELS = ("model", "checkpoint", "hf", "llm")
"""Kinds of agents that are models."""
FORMS: Mapping[str, str] = {
    "policy:NAME": "a registered opponent in the learner's seat, as in policy:kuhn/nash or policy:mcts:1000",
    "scripted:first": "always the first legal action",
    "scripted:last": "always the last legal action",
    "scripted:random": "any legal action",
    "model:FOLDER": "a saved model, or a training checkpoint, as in model:runs/demo; the folder's path alone will do, "
    "and so will checkpoint:FOLDER, its name as an opponent",
    "hf:MODEL": "any chat model in a Hugging Face folder or on the hub, with the sampling and limits of the game's "
    "presets, as in hf:runs/smollm2 or hf:Qwen/Qwen3-4B,max_tokens=1024",
    "llm:MODEL@URL": "a model behind an OpenAI-compatible endpoint, as in llm:qwen3:4b@http://localhost:11434/v1; "
    "a second @URL names another server of it",
    FORM: ABOUT,
}
"""Forms of agent names that `make_agent` accepts, with their descriptions."""


class Agent(Protocol):
    """An agent that can be evaluated."""

    name: str

    def generator(self, game: Game) -> Generator:
        """Return a generator of replies. `game` shows the game's facts and options; it is not played itself."""
        ...


class GeneratorAgent:
    """An existing generator, such as a model in memory or a user's own backend."""

    def __init__(self, generator: Generator, name: str, sampling: Mapping[str, float] | None = None) -> None:
        """Wrap a generator.

        Args:
            name: Name of the agent in records and tables.
            sampling: Sampling settings of its replies, which are only recorded.
        """
        self.name = name
        self.sampling = sampling
        self._generator = generator

    def generator(self, game: Game) -> Generator:
        return self._generator


class EndpointAgent:
    """A model behind an endpoint.

    The game's presets limit the length of its replies, unless its name sets a limit.
    """

    def __init__(self, endpoint: str, sampling: Mapping[str, float] | None) -> None:
        """Check the name of the endpoint, and prepare its options.

        Args:
            endpoint: `MODEL@URL[,KEY=VALUE]...`, or `MODEL@URL@URL` for several servers of the model.
            sampling: Sampling settings, which are added to the options.

        Raises:
            ValueError: If the name is malformed or an option is unknown.
        """
        from mage_envs.opponents.llm import shared_endpoints

        # A run resumes on another server, and no table shows a host.
        self.name = portable_spec(f"llm:{endpoint}")
        self.sampling = sampling
        self._endpoint = ",".join((endpoint, *(f"{key}={value:g}" for key, value in (sampling or {}).items())))
        # Fail on a bad name before anything is played. The endpoint itself is created per game.
        endpoints = shared_endpoints(self._endpoint)
        if endpoints[0].spec[2].style is not None:
            raise ValueError(f"Agent {self.name!r}: style is an option of opponents. Use --style for an agent.")
        self.model = endpoints[0].model
        """Name of the model in its requests."""
        self.slots = sum(endpoint.concurrency for endpoint in endpoints)
        """Number of calls that may run at once."""
        self._listed: str | None = None

    def generator(self, game: Game) -> EndpointGenerator | AnswerStream:
        from mage_envs.opponents.llm import AnswerStream

        endpoints = self._endpoints(game.spec.name)
        # With several servers, a stream queries the least busy one.
        return endpoints[0] if len(endpoints) == 1 else AnswerStream(endpoints)

    def request(self, game_name: str) -> dict[str, Any]:
        """Return the parameters of its requests in that game, limits and sampling included, for the records."""
        endpoint = self._endpoints(game_name)[0]
        return endpoint.parameters | ({} if endpoint.spec[2].seed else {"seed": False})

    def look_up(self, game_name: str) -> None:
        """Read the id of the served model from the list of each server, and forget earlier replies.

        Raises:
            RuntimeError: If two servers list different models.
        """
        # Endpoints are shared by all runs of a process, and the server may have changed since the last one.
        for endpoint in self._endpoints(game_name):
            endpoint.replied = None
        self._listed = _one_model({endpoint.query_model_id() for endpoint in self._endpoints(game_name)})

    def model_ids(self, game_name: str) -> dict[str, str | None]:
        """Return the id of the served model in the servers' lists and in their replies so far, None if unknown.

        Raises:
            RuntimeError: If two servers replied with different models.
        """
        replied = _one_model({endpoint.replied for endpoint in self._endpoints(game_name)})
        return {"listed": self._listed, "replied": replied}

    def _endpoints(self, game_name: str) -> Sequence[SharedEndpoint]:
        """Return the endpoint of each server with the limits of a game, unless the agent has its own."""
        from mage_envs.opponents.llm import shared_endpoints
        from mage_envs.opponents.llm.names import read_endpoint
        from mage_envs.trainer.config.presets import reply_limit

        _, _, options = read_endpoint(self._endpoint)
        limits = ""
        if options.max_tokens is None and options.max_completion_tokens is None:
            limits = f",max_tokens={reply_limit(game_name)}"
        # A local server takes minutes for thousands of tokens.
        if options.deadline is None:
            limits += f",deadline={REPLY_DEADLINE_S}"
        return shared_endpoints(self._endpoint + limits)


def _one_model(model_ids: Collection[str | None]) -> str | None:
    """Return the id that all servers share, or None if it is unknown. Raise RuntimeError if there are several."""
    known_ids = sorted({model_id for model_id in model_ids if model_id is not None})
    if len(known_ids) > 1:
        raise RuntimeError(f"The servers of one agent must serve one model, got {', '.join(known_ids)}.")
    return known_ids[0] if known_ids else None


class SavedModelAgent(LocalAgent):
    """A model in a folder, queried with its training settings. `settings` names the environment of its training."""

    def __init__(self, folder: str | Path, sampling: Mapping[str, float] | None = None) -> None:
        """Read the settings. The model itself is loaded by `generator`.

        Args:
            folder: Folder of a saved model or a training checkpoint.
            sampling: Fields of the trainer's `Sampling` to replace.

        Raises:
            FileNotFoundError: If the folder does not exist.
            ValueError: If the folder holds no readable settings.
        """
        from mage_envs.trainer.backends.play_settings import PlaySettings

        self.sampling, self.name = sampling, f"model:{folder}"
        # The model is loaded later, when other code may have changed the current directory.
        self.folder = Path(folder).absolute()
        if not self.folder.is_dir():
            raise FileNotFoundError(f"Agent {self.name!r}: the folder does not exist. Use the folder of a saved model.")
        self.settings = PlaySettings.load(folder)

    def request(self, game_name: str) -> dict[str, Any]:
        """Return its sampling settings for the records. They are the same in every game."""
        sampling: dict[str, Any] = {
            "max_tokens": self.settings.max_new_tokens,
            "temperature": self.settings.temperature,
        }
        if self.settings.reply_format is not None and self.settings.reply_format.shows_date:
            sampling["date"] = self.settings.prompt_format.date
        return sampling | dict(self.sampling or {})

    def generator(self, game: Game) -> Generator:
        # In a conversation each prompt extends the last one, so its key-value cache can be reused.
        converses = self.settings.env_kwargs.get("context") == "conversation"
        return local_generator(self, self.settings, self.sampling, converses)


def saved_options(agent: Agent) -> dict[str, Any]:
    """Return the options of the environment in which a saved model was trained. Other agents have none."""
    return dict(agent.settings.env_kwargs) if isinstance(agent, SavedModelAgent) else {}


class PolicyAgent:
    """A policy in the learner's seat. It reads the `info` of the prompts instead of their text."""

    def __init__(self, make_policy: Callable[[Game], Policy], name: str) -> None:
        """Wrap a policy. `make_policy` is called once for each meta-episode that is played concurrently."""
        self.name, self._make_policy = name, make_policy

    def generator(self, game: Game, memory: object = None) -> Generator:
        """Return a generator of the policy's actions.

        Args:
            memory: Memory of the environment. Under the control `none` a new policy plays each episode. Under the
                control `other` a new policy first relives the earlier episodes of the source that the environment
                names. Other memories have no effect, because a policy reads no text.
        """
        control = re.match(f"(?:({NONE})|({OTHER})@[^/]*)/", memory) if isinstance(memory, str) else None
        name = None if control is None else control[1] or control[2]
        return PolicyGenerator(partial(self._make_policy, game), name)

    def policy(self, game: Game) -> Policy:
        """Return a new policy for the game."""
        policy: Policy = fill_in(self._make_policy(game), Policy)
        return policy


class _FixedIndexPolicy(Policy):
    """A policy that plays the legal action at a fixed index, or answers nothing if the game lists no actions."""

    def __init__(self, index: int) -> None:
        self._index = index

    def reset(self, rng: np.random.Generator) -> None: ...

    def act(self, turn: Turn) -> str:
        return turn.legal_actions[self._index] if turn.legal_actions else ""


_SCRIPTS: Mapping[str, Callable[[Game], Policy]] = {
    "first": lambda game: _FixedIndexPolicy(0),
    "last": lambda game: _FixedIndexPolicy(-1),
    "random": lambda game: make_opponent("uniform", game),
}


def make_agent(spec: str, sampling: Mapping[str, float] | None = None, name: str | None = None) -> Agent:
    """Return the agent that `spec` names in one of `FORMS`.

    Args:
        sampling: Sampling settings, for models only.
        name: Name of the agent in records and tables (default: from `spec`, without a server's address).

    Raises:
        FileNotFoundError: If the folder of a model does not exist.
        ValueError: If the agent is unknown, or if `sampling` is set for an agent without sampling.
    """
    agent = _agent(spec, sampling)
    if name is not None:
        agent.name = name
    return agent


def _agent(spec: str, sampling: Mapping[str, float] | None) -> Agent:
    parsed = parse(spec)
    kind, arguments = parsed.name, parsed.arguments or ""
    saved = kind in ("model", "checkpoint")
    models = (saved and arguments) or (kind not in (*NO_MODEL, "llm", "hf") and Path(spec).is_dir() and spec)
    if models:
        return SavedModelAgent(models, sampling)
    if kind == "hf" and arguments:
        return HuggingFaceAgent(spec, parsed, sampling)
    if kind == "llm" and arguments:
        return EndpointAgent(arguments, sampling)
    if sampling:
        raise ValueError(f"Agent {spec!r} is not a model, so sampling has no effect. Remove the sampling settings.")
    if kind == "policy" and arguments:
        return PolicyAgent(lambda game: make_opponent(arguments, game), spec)
    if kind == "scripted" and arguments in _SCRIPTS:
        return PolicyAgent(_SCRIPTS[arguments], spec)
    policies = [f"policy:{name}" for name in list_opponents()]
    spellings = policies + [f"scripted:{name}" for name in _SCRIPTS]
    hint = f" Did you mean 'policy:{spec}'?" if f"policy:{spec}" in policies else nearest_name(spec, spellings)
    if names_function(spec) and kind not in (*NO_MODEL, *MODELS):
        try:
            return FunctionAgent(spec)
        except NoSuchModule:
            # A near name is a misspelt one. Otherwise the error says where the module was searched.
            if not hint:
                raise
    raise ValueError(f"Unknown agent {spec!r}: expected a folder or one of the forms {', '.join(FORMS)}.{hint}")


def keeps_state(agent: Agent) -> bool:
    """Return True if the agent has a memory of its own, which the control `none` must empty, too."""
    return isinstance(agent, PolicyAgent) or (isinstance(agent, FunctionAgent) and agent.keeps_state)


def split_memory(spec: str) -> tuple[str, str | None]:
    """Return the two parts of `AGENT+MEMORY`; the memory is None if the name has none.

    A `+` in a path or in the name of a model does not separate.
    """
    agent, plus, memory = spec.rpartition("+")
    memory_name = memory.partition(":")[0]
    if not plus or not agent or not memory_name or "@" in memory_name or Path(spec).exists():
        return spec, None
    return agent, memory
