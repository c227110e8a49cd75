"""A language model as an opponent, with the same prompts and the same parser as a learner."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy, deepcopy
from hashlib import sha256
from typing import Any, Self

import numpy as np

from mage_envs.core import GameSpec, Policy, Turn
from mage_envs.registry import DEFAULTS, list_games, settings_of
from mage_envs.settings import GameSettings
from mage_envs.text.generation import Completion, Generator, Message, Prompt
from mage_envs.text.parser import LENGTH, parse_tag
from mage_envs.text.prompts import Frame, PlayView, PromptStyle, TurnRecord

TRIES = 3
"""Answers per turn before a random legal action replaces them."""
_KEYS = 2**62
"""Number of sampling keys; each fits a signed 64-bit integer."""
NOT_RECORDED = "the records hold no answer to this request"


_RECORDED: ContextVar[Mapping[str, Mapping[str, Any]] | None] = ContextVar("recorded", default=None)


@contextmanager
def replay_calls(calls: Iterable[Mapping[str, Any]]) -> Iterator[None]:
    """Answer every `LanguageModelPolicy` from recorded calls within the context; no model is called."""
    # A context variable, so that threads that replay different records do not share their answers.
    token = _RECORDED.set({call["key"]: call for call in calls})
    try:
        yield
    finally:
        _RECORDED.reset(token)


def replays_records() -> bool:
    """Return True within `replay_calls`."""
    return _RECORDED.get() is not None


def request_key(name: str, prompt: Prompt) -> str:
    """Return the digest that identifies a request to a model: its name, its prompt and its sampling key."""
    fields = [name, [[message.role, message.content] for message in prompt.messages], list(map(int, prompt.seed))]
    return sha256(json.dumps(fields).encode()).hexdigest()[:32]


class LanguageModelPolicy(Policy):
    """A policy that queries `generator` at each turn with a new prompt, which shows the present hand only.

    If an answer is not a legal action, the next prompt shows it to the model and requests another. After `TRIES`
    answers the action is drawn uniformly, and `given_up` counts it.
    """

    def __init__(
        self,
        generator: Generator,
        facts: GameSpec,
        style: PromptStyle,
        num_episodes: int | None = None,
        settings: GameSettings = DEFAULTS,
        name: str = "",
    ) -> None:
        """Initialize the policy.

        Args:
            facts: Facts of the game that is played.
            num_episodes: Number of episodes of a learner. The prompts are those of its first one, as a model knows
                them from training. None for prompts of an opponent, which state its tries.
            settings: Settings of the game; the prompt uses its windows.
            name: Name of the model, part of the key under which `replay_calls` finds recorded answers.
        """
        self.generator = generator
        self.style = style
        self._renaming = style.renaming
        self.num_episodes = num_episodes
        self.turns = 0
        """Number of turns since the policy was made."""
        self.invalid = 0
        """Number of answers with text that were not legal actions."""
        self.no_text = 0
        """Number of answers without text: refusals, calls of tools, and empty answers."""
        self.given_up = 0
        """Number of turns with a drawn action, because no answer was legal."""
        self.name = name
        self._call_records: list[Mapping[str, Any]] = []
        self._facts = facts
        tries = TRIES if num_episodes is None else 0
        self._frame = Frame(facts, num_episodes or 1, max_turns=facts.max_turns, tries=tries)
        self._settings = settings
        self._rng: np.random.Generator
        self._key = 0
        self._calls = 0
        self._records: list[TurnRecord] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy with the same generator."""
        # The memo makes deepcopy reuse the generator, which holds connections or a model's weights.
        memo[id(self.generator)] = self.generator
        clone = copy(self)
        vars(clone).update(deepcopy(vars(self), memo))
        return clone

    def on_meta_episode_start(self) -> None:
        """Forget the recorded calls; the policy has no other memory of earlier hands."""
        self._call_records = []

    def model_calls(self) -> Sequence[Mapping[str, Any]]:
        """Return a record of each call: the model, the request's digest, and the answer."""
        return self._call_records

    def reset(self, rng: np.random.Generator) -> None:
        """Start a hand; one drawn number seeds the sampling of all its answers."""
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
            reason = completion.no_text or (LENGTH if answer is None and completion.truncated else None)
            self._records.append(TurnRecord(turn.observation, answer, turn, action is not None, reason=reason))
            if action is not None:
                return action
            self.invalid += completion.no_text is None
            self.no_text += completion.no_text is not None
        self.given_up += 1
        if not turn.legal_actions:
            raise ValueError(
                f"The language model gave no readable answer in {TRIES} tries, and {self._facts.name} lists none."
            )
        random_action = turn.legal_actions[int(self._rng.random() * len(turn.legal_actions))]
        self._records.append(TurnRecord(turn.observation, random_action, turn, True, drawn=True))
        return random_action

    def _ask(self, turn: Turn) -> Completion:
        """Return the answer for a turn, with the oldest turns dropped if the prompt is too long for the model."""
        # An overflow does not count as a call, so a shorter prompt reuses the seed of the longer one.
        for window in range(min(self._settings.history_window, len(self._records)), -1, -1):
            seed = (self._key, self._calls)
            shown_records = self._records[len(self._records) - window :]
            completion = self._query(self.prompt(turn, self._records, shown_records, seed))
            if completion.error is not None:
                raise RuntimeError(f"The language model could not be asked: {completion.error}")
            if not completion.overflow:
                self._calls += 1
                return completion
        raise RuntimeError(f"The prompt for one turn of {self._facts.name} is longer than the language model's limit.")

    def _query(self, prompt: Prompt) -> Completion:
        """Return and record the answer of the model, or the recorded answer inside `replay_calls`."""
        key, recorded = request_key(self.name, prompt), _RECORDED.get()
        if recorded is None:
            [answer] = self.generator.generate([prompt])
        elif key in recorded:
            call = recorded[key]
            flags = {"truncated": call["truncated"], "overflow": call["overflow"]}
            flags |= {name: call.get(name) for name in ("error", "no_text", "reasoning")}
            answer = Completion(call["text"], **flags)
        else:
            answer = Completion("", error=NOT_RECORDED)
        fields = {"text": answer.text, "truncated": answer.truncated, "overflow": answer.overflow}
        # Absent unless set, so that records of ordinary answers keep their form.
        at_times = {"error": answer.error, "no_text": answer.no_text, "reasoning": answer.reasoning}
        fields |= {name: value for name, value in at_times.items() if value is not None}
        self._call_records.append({"key": key, "model": self.name, **fields})
        return answer

    def prompt(
        self,
        turn: Turn,
        records: Sequence[TurnRecord],
        shown_records: Sequence[TurnRecord],
        seed: tuple[int, ...],
        slot: int = 0,
    ) -> Prompt:
        """Return the prompt of a turn.

        Args:
            records: All turns of the hand so far.
            shown_records: The last of `records`, which the prompt shows.
            seed: Sampling key of the answer.
            slot: Slot of the prompt in a batch.
        """
        # Number of tries since the last turn.
        failed = next((back for back, record in enumerate(reversed(records)) if record.legal), len(records))
        learner = self.num_episodes is not None
        text = self.style.play(
            PlayView(
                frame=self._frame,
                episode=0,
                first_observation=records[0].observation if records else turn.observation,
                turn=turn,
                observation=turn.observation,
                turns=shown_records,
                full_turns=self._settings.full_turns,
                omitted=len(records) - len(shown_records),
                memory="",
                last=records[-1] if records else None,
                # In a learner's prompt all tries of a turn have its number, so that no number passes the limit.
                answer=1 + (sum(record.legal for record in records) if learner else failed),
            )
        )
        chat = (Message("user", self._renaming.rename(text)),)
        return Prompt(chat, slot, seed, turn.legal_actions, info={"answer_tag": self.style.action_tag})

    def read(self, completion: Completion) -> str | None:
        """Return the action's text in an answer, or None if it contains no action."""
        # As for a learner, a reply that was cut at its limit is invalid. A style without a tag has one-word replies,
        # which end at their limit by design.
        if completion.truncated and self.style.action_tag is not None:
            return None
        answer = parse_tag(completion.text, self.style.action_tag)
        return answer if answer is None else self._renaming.read(answer)


def settings_for(facts: GameSpec) -> GameSettings:
    """Return the registered settings of a game, or the defaults if it is not registered."""
    return settings_of(facts.name) if facts.name in list_games() else DEFAULTS


def legal_form(answer: str | None, legal_actions: tuple[str, ...]) -> str | None:
    """Return the legal action that equals `answer` regardless of case, or None if there is none.

    If the game lists no actions, every answer is legal.
    """
    if answer is None or not legal_actions:
        return answer
    return next((action for action in legal_actions if action.lower() == answer.lower()), None)
