"""An opponent that is a language model, asked with the same prompts and read by the same parser as a learner."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy, deepcopy
from hashlib import sha256
from typing import Any, Self

import numpy as np

from mage_envs.core import GameFacts, Turn
from mage_envs.registry import DEFAULTS, list_games, settings_of
from mage_envs.settings import GameSettings
from mage_envs.text.generation import Completion, Generator, Message, Prompt
from mage_envs.text.parser import parse_tag
from mage_envs.text.prompts import PlayView, PromptStyle, TurnRecord

TRIES = 3
"""Times a turn is asked before a random legal action takes the answer's place."""
_KEYS = 2**62
NOT_RECORDED = "the records hold no answer to this request"


_RECORDED: ContextVar[Mapping[str, Mapping[str, Any]] | None] = ContextVar("recorded", default=None)


@contextmanager
def answered_by(calls: Iterable[Mapping[str, Any]]) -> Iterator[None]:
    """Within it every `LanguageModelPolicy` is answered by these calls, as one told them, and no model is asked."""
    before = _RECORDED.set({call["key"]: call for call in calls})
    try:
        yield
    finally:
        _RECORDED.reset(before)


def request_key(name: str, prompt: Prompt) -> str:
    """Tells a request to a model from every other: its prompt and its sampling key."""
    told = [name, [[message.role, message.content] for message in prompt.messages], list(map(int, prompt.seed))]
    return sha256(json.dumps(told).encode()).hexdigest()[:32]


class LanguageModelPolicy:
    """Asks `generator` at each turn with a fresh prompt, which shows this hand and nothing before it.

    The prompt is that of the first episode of `num_episodes`, the one that shows no memory. An answer that is no legal
    action is shown back to the model and asked again; after `TRIES` the action is drawn uniformly, and `given_up`
    counts it.
    """

    def __init__(
        self,
        generator: Generator,
        facts: GameFacts,
        style: PromptStyle,
        num_episodes: int = 1,
        settings: GameSettings = DEFAULTS,
        name: str = "",
    ) -> None:
        """`facts` of the game that is played; of its `settings`, the windows of the prompt. `name` is the model's, by
        which `answered_by` tells its answers from another's."""
        self.generator = generator
        self.style = style
        self.num_episodes = num_episodes
        self.turns = 0
        """Turns asked for since this was made."""
        self.invalid = 0
        """Answers that were no legal action."""
        self.no_text = 0
        """Answers without text: refusals, calls of tools, and empty ones."""
        self.given_up = 0
        """Turns whose action was drawn because no answer was legal."""
        self.name = name
        self._told: list[Mapping[str, Any]] = []
        self._facts = facts
        self._settings = settings
        self._rng: np.random.Generator
        self._key = 0
        self._calls = 0
        self._records: list[TurnRecord] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy with the same generator."""
        memo[id(self.generator)] = self.generator
        made = copy(self)
        vars(made).update(deepcopy(vars(self), memo))
        return made

    def begin_meta_episode(self) -> None:
        """Forgets what is told of the last one; it plays by the running hand alone."""
        self._told = []

    def told_calls(self) -> Sequence[Mapping[str, Any]]:
        """The model, the digest of the prompt and of its sampling key, and the answer of each call."""
        return self._told

    def reset(self, rng: np.random.Generator) -> None:
        """Starts a hand; one number keys the sampling of all its answers."""
        self._rng = rng
        self._key = int(rng.integers(_KEYS))
        self._calls = 0
        self._records = []

    def act(self, turn: Turn) -> str:
        self.turns += 1
        for _ in range(TRIES):
            completion = self._ask(turn)
            answer = self.read(completion)
            action = legal_form(answer, turn.legal_actions)
            self._records.append(TurnRecord(turn.observation, answer, turn, action is not None))
            if action is not None:
                return action
            self.invalid += completion.no_text is None
            self.no_text += completion.no_text is not None
        self.given_up += 1
        if not turn.legal_actions:
            raise ValueError(
                f"The language model gave no readable answer in {TRIES} tries, and {self._facts.name} lists none."
            )
        drawn = turn.legal_actions[int(self._rng.random() * len(turn.legal_actions))]
        self._records.append(TurnRecord(turn.observation, drawn, turn, True))
        return drawn

    def _ask(self, turn: Turn) -> Completion:
        """One call; the oldest turns are left out of a prompt that is too long for the model."""
        for window in range(min(self._settings.history_window, len(self._records)), -1, -1):
            seed = (self._key, self._calls)
            shown = self._records[len(self._records) - window :]
            completion = self._answered(self.prompt(turn, self._records, shown, seed))
            if completion.error is not None:
                raise RuntimeError(f"The language model could not be asked: {completion.error}")
            if not completion.overflow:
                self._calls += 1
                return completion
        raise RuntimeError(f"The prompt for one turn of {self._facts.name} is longer than the language model's limit.")

    def _answered(self, prompt: Prompt) -> Completion:
        """The answer of the model, or of the records that stand for it; it is kept to be told."""
        key, recorded = request_key(self.name, prompt), _RECORDED.get()
        if recorded is None:
            [answer] = self.generator.generate([prompt])
        elif key in recorded:
            call = recorded[key]
            flags = {"truncated": call["truncated"], "overflow": call["overflow"]}
            flags |= {"error": call.get("error"), "no_text": call.get("no_text")}
            answer = Completion(call["text"], **flags)
        else:
            answer = Completion("", error=NOT_RECORDED)
        told = {"text": answer.text, "truncated": answer.truncated, "overflow": answer.overflow}
        at_times = {"error": answer.error, "no_text": answer.no_text}
        told |= {name: value for name, value in at_times.items() if value is not None}
        self._told.append({"key": key, "model": self.name, **told})
        return answer

    def prompt(
        self,
        turn: Turn,
        records: Sequence[TurnRecord],
        shown: Sequence[TurnRecord],
        seed: tuple[int, ...],
        slot: int = 0,
    ) -> Prompt:
        """The prompt of a turn after this hand's `records`, of which the last ones are `shown`."""
        text = self.style.play(
            PlayView(
                rules=self._facts.rules,
                episode=0,
                num_episodes=self.num_episodes,
                first_observation=records[0].observation if records else turn.observation,
                turn=turn,
                observation=turn.observation,
                turns=shown,
                full_turns=self._settings.full_turns,
                omitted=len(records) - len(shown),
                memory="",
                last=records[-1] if records else None,
                max_turns=self._facts.max_turns,
            )
        )
        return Prompt((Message("user", text),), slot, seed, turn.legal_actions)

    def read(self, completion: Completion) -> str | None:
        """The action's text in an answer, None where it holds none."""
        if completion.truncated and self.style.action_tag is not None:
            return None
        return parse_tag(completion.text, self.style.action_tag)


def settings_for(facts: GameFacts) -> GameSettings:
    """The settings that a game was registered with, the defaults for one that is not."""
    return settings_of(facts.name) if facts.name in list_games() else DEFAULTS


def legal_form(answer: str | None, legal_actions: tuple[str, ...]) -> str | None:
    """The legal action that `answer` spells, in any case; every answer is one where the game lists none."""
    if answer is None or not legal_actions:
        return answer
    return next((action for action in legal_actions if action.lower() == answer.lower()), None)
