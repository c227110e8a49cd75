"""The types of the suite: a game, its states, a turn, a policy, a task.

Everything above this file uses only these types. A `Game` is a value that holds rules. A `State` is a value too: one
point of a hand. A policy sees a `Turn`, never the state, so it cannot peek.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from mage_envs.drawing.picture import Picture
from mage_envs.info import PRIVATE, private_info
from mage_envs.loading.defaults import overrides
from mage_envs.text.words.spelling import ObservationWords, WordsOfState, split_at_blanks


class IllegalAction(ValueError):
    """Error for an action text that the rules do not allow in this state. The hand is unchanged."""

    def __init__(self, action: str, legal_actions: Sequence[str]) -> None:
        excerpt = action if len(action) <= 40 else action[:37] + "..."
        super().__init__(f"{excerpt!r} is not legal; choose one of: {', '.join(legal_actions)}.")
        self.action, self.legal_actions = action, legal_actions

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions pickle the arguments of BaseException.__init__ by default: here the message, not our arguments.
        return type(self), (self.action, self.legal_actions)


class NotEnumerable(TypeError):
    """Error for a game whose tree cannot be enumerated. The message gives the reason."""


@dataclass(frozen=True, kw_only=True)
class GameSpec:
    """Constants of a game, the same for all of its hands."""

    name: str
    """Name in ids: `KuhnPoker` gives `mage/KuhnPoker-v0`."""
    rules: str
    """Prose for the prompt: rules, goal, and the form of an action."""
    players: int = 2
    unit: str = "points"
    min_return: float = -1.0
    """Worst return of a hand, in the game's unit."""
    max_return: float = 1.0
    perfect_information: bool = False
    general_sum: bool = False
    """True if the players' returns do not sum to a constant, so that a positive return is no success."""
    max_turns: int = 20
    """Default limit of answers per player in one hand."""
    actions: tuple[str, ...] | None = None
    """All action texts in a fixed order, or None if the action set is not fixed (free text)."""
    words: WordsOfState = field(default=split_at_blanks, compare=False, repr=False)
    """Module-level function from an information state to its words, for the prompt style `words`."""
    observation_words: ObservationWords | None = field(default=None, compare=False, repr=False)
    """Words of the observations, which the style `words` then shows instead of the information states."""
    shows_legal_actions: bool = True
    """True if the player sees the legal actions. If not, only `info["private"]` has them."""
    legal_note: str = ""
    """Note on the list of legal actions in a prompt, if the list alone is incomplete."""
    lists_actions_in_paper: bool = True
    """True if the prompts of the paper list the legal actions, as those of the style `paper` then do."""
    nearest: Callable[[str, Sequence[str]], str] | None = field(default=None, compare=False, repr=False)
    """Module-level function from (invalid answer, listed actions) to its legal form; None: the most similar action."""
    neutral: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Phrases to neutral ones, for the prompt style `neutral`. A lower-case phrase also counts capitalised."""
    has_intermediate_rewards: bool = False
    """True if `State.returns` counts before the end, so that a stopped hand keeps its returns so far."""
    has_pictures: bool = False
    """True if states have a `picture`, which adds the render modes `rgb_array` and `human`."""
    series: bool = False
    """True if every episode of a meta-episode is another task, and a hidden fact stays the same (`Related`)."""
    stays: str = ""
    """Sentences for prompts: what stays the same between episodes and what changes. Empty for the style's own words."""


class State(ABC):
    """One point of a hand: the player to move, each player's observation, and the result of each move.

    A state is a value: `after` returns another state and leaves this one unchanged. An engine that keeps its own state
    (ALFWorld's) may return itself, changed. Then only the result is valid.
    """

    # For type checkers only: a subclass may define these as fields, as attributes or as properties.
    if TYPE_CHECKING:

        @property
        def player(self) -> int | None:
            """Return the player to move, or None if the hand is over."""

        @property
        def legal_actions(self) -> tuple[str, ...]:
            """Return the legal action texts in a fixed order; examples or nothing in free-text games (WebShop)."""

        @property
        def returns(self) -> tuple[float, ...]:
            """Return each player's return in the game's unit: zeros before the end, unless the game pays on the way."""

    chance_events: tuple[str, ...] = ()
    """Chance events after the last move, in games of perfect information."""
    task_id: str | None = None
    """Id of the current task (a goal, a game file), in games that have such ids."""
    category: str | None = None
    """Class of the task for tables and logs ("2 boxes"), or None if the game has only one class."""
    max_turns: int | None = None
    """Limit of answers per player in this hand, at most the spec's, or None for the spec's."""

    @abstractmethod
    def observation(self, seat: int) -> str:
        """Return the text that the player sees. After the end, it includes the result."""

    def information_state(self, seat: int) -> str:
        """Return a key of the player's knowledge, equal if and only if the knowledge is (default: the observation)."""
        return self.observation(seat)

    @abstractmethod
    def after(self, action: str) -> State:
        """Return the state after the mover's `action` and chance. Raises `IllegalAction` with nothing changed."""

    def canonical(self, action: str) -> str:
        """Return `action` as `legal_actions` spells it, if it is another spelling of a legal action."""
        return action

    def move(self, action: str) -> tuple[str, State]:
        """Return `canonical(action)` and `after(action)`. A subclass may find both in one lookup."""
        # `after` first: it raises for an illegal action, which may have no canonical spelling.
        next_state = self.after(action)
        return self.canonical(action), next_state

    def after_illegal(self) -> State:
        """Return the state after an illegal answer, which must cost as much as a move (default: this state)."""
        return self

    def info(self, seat: int) -> dict[str, Any]:
        """Return the player's `info` for this state, as in the first hand of episode 0 before any answer.

        The caller copies the dict and `private` in it, and must not change them. It sets `messages`.
        """
        private: dict[str, Any] = {}
        if metrics := self.metrics():
            private["metrics"] = dict(metrics)
        if self.task_id is not None:
            private["task"] = self.task_id
        if self.category is not None:
            private["category"] = self.category
        return {
            "messages": None,
            "phase": "play",
            "answer_tag": None,
            "num_episodes": 1,
            "legal_actions": self.legal_actions,
            "information_state": self.information_state(seat),
            "episode_index": 0,
            "hand": 0,
            "seat": seat,
            "invalid_reason": None,
            "action": None,
            PRIVATE: private,
        }

    def won(self, seat: int) -> bool | None:
        """Return True if the finished hand is a success for the player, or None if the return's sign decides."""
        return None

    def result(self, seat: int) -> HandResult:
        """Return the player's result of a hand that is over."""
        return HandResult(
            value=self.returns[seat],
            seat=seat,
            success=self.won(seat),
            observation=self.observation(seat),
            information_state=self.information_state(seat),
        )

    def metrics(self) -> Mapping[str, float]:
        """Return values by name for logs and evaluation. They are private: no player may see them."""
        return {}

    def picture(self, seat: int) -> Picture:
        """Return the player's view as a picture. Raises TypeError if the game has no pictures."""
        raise TypeError(f"{type(self).__name__} has no picture, only text. Use render_mode='ansi'.")


class Game(ABC):
    """The rules of a turn-based text game for 1 to N players. Playing does not change an instance."""

    spec: GameSpec
    builds_data: ClassVar[bool] = False
    """True if making the first instance on a machine can take minutes, so that lists of games make none."""

    @property
    def title(self) -> str:
        """Return the name for headings and messages. A class that stands for many games returns that of its game."""
        return self.spec.name

    @abstractmethod
    def initial_state(self, rng: np.random.Generator) -> State:
        """Return the first state of a hand. All chance is drawn from `rng`."""

    def series_state(self, rng: np.random.Generator, number: int) -> State:
        """Return the first state of task `number` (from 0) of a meta-episode, for games with `spec.series`.

        No task may occur twice before all have occurred. `rng` is the same for all tasks of a meta-episode.
        """
        raise TypeError(f"{self.spec.name} draws every hand by itself: its spec has no series.")

    def describe_opponent(self, name: str) -> str:
        """Return what knowing the opponent means, as a sentence for a prompt. Raises ValueError if there is none."""
        raise ValueError(
            f"{self.spec.name} does not describe its opponents. Only games that implement describe_opponent do."
        )

    def initial_states(self) -> Sequence[tuple[float, State]]:
        """Return every first state with its probability. No chance may follow these states.

        Every call returns the same objects. Raises `NotEnumerable` if the game's tree cannot be enumerated.
        """
        raise NotEnumerable(f"{self.spec.name} cannot be enumerated: it does not define initial_states().")

    def task_state(self, task_id: str, rng: np.random.Generator) -> State:
        """Return the first state of a task. Raises `ValueError` for an unknown id."""
        raise ValueError(f"{self.spec.name} has no tasks to choose from. Remove task={task_id!r}.")

    def with_limit(self, max_turns: int) -> Self:
        """Return the game with the facts that hold under a limit of answers that the user chose."""
        return self

    def data_hash(self) -> str | None:
        """Return a hash of the data behind the tasks, for records, or None if the game's options define all tasks."""
        return None

    def family(self, task_id: str) -> str | None:
        """Return the task's group of related tasks, whose results are not independent draws, or None without one."""
        return None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Playing does not change a game, so copies of an environment can share it.
        return self


class Turn(NamedTuple):
    """Everything that one player may know when it must move."""

    player: int
    observation: str
    legal_actions: tuple[str, ...]
    information_state: str
    """Key of the player's knowledge; tabular policies use it."""
    episode: int = 0
    """Index of the episode in the meta-episode (0 outside of one)."""
    history: tuple[str, ...] = ()
    """All actions so far, by all players and by chance, in games of perfect information; empty in others."""
    task_id: str | None = None
    """Id of the current task, in games that have such ids. No prompt shows it."""
    success: bool | None = None
    """In `Policy.on_hand_end`: True if the game counts the hand as won, None if the return's sign decides."""
    opponent: str | None = None
    """Name of the opponent, if the environment reveals it (`reveal_opponent=True`). No prompt shows it."""

    @classmethod
    def from_info(cls, info: Mapping[str, Any], observation: str, episode: int | None = None) -> Self:
        """Return the turn that the `info` of an environment describes.

        Args:
            info: `info` of a reset or a step. A third-party environment may omit any entry.
            observation: Observation that came with `info`. It replaces a missing `anchor` or `information_state`.
            episode: Index of the episode, if the caller counts the episodes itself (default: `episode_index`, else 0).
        """
        private = private_info(info)
        return cls(
            player=info.get("seat", 0),
            # The observation may start with the results of the last hands. The anchor is the current state alone.
            observation=info.get("anchor", observation),
            legal_actions=tuple(private.get("legal_actions") or info.get("legal_actions", ())),
            information_state=info.get("information_state", observation),
            episode=info.get("episode_index", 0) if episode is None else episode,
            history=tuple(info.get("history", ())),
            task_id=private.get("task"),
            opponent=private.get("opponent"),
        )


# -- policies --------------------------------------------------------------------------------------------------


class Policy(ABC):
    """Base class of a policy, the player of a seat: it implements `reset` and `act`, and overrides what else it needs.

    A class without this base is a policy, too, if it has these two methods: `fill_in` adds the others to it.
    """

    follows_information_state: bool = False
    """True if `distribution` follows from `turn.information_state` alone, so that the replies may be tabulated.

    They are then drawn from `distribution`, with one uniform number per decision (none if one action is certain), and
    `act` is not called.
    """

    @abstractmethod
    def reset(self, rng: np.random.Generator) -> None:
        """Start a hand. `rng` is the policy's only source of randomness until the next reset."""

    @abstractmethod
    def act(self, turn: Turn) -> str:
        """Return one of `turn.legal_actions`."""

    def on_meta_episode_start(self) -> None:  # noqa: B027  (a default that does nothing)
        """Forget all earlier hands. Called once before episode 0."""

    def on_hand_end(self, turn: Turn) -> None:  # noqa: B027
        """Process the end of a hand. `turn` holds the seat's last observation and no legal actions."""

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        """Return the probabilities of the legal actions, which sum to 1; a missing action has probability 0.

        A policy that implements it is exact: the probabilities depend on `turn` alone, so that ceilings against it can
        be computed. Raises TypeError if they are not known.
        """
        raise TypeError(f"{type(self).__name__} has no distribution(turn).")

    def report_belief(self) -> Mapping[str, float]:
        """Return the probability of each opponent of a pool by its name, or an empty mapping. Called between episodes.

        The probabilities are given all that the policy has seen.
        """
        return {}

    def model_calls(self) -> Sequence[Mapping[str, Any]]:
        """Return every call of a model since the meta-episode began, as JSON values, so that it can be replayed."""
        return ()


def has_distribution(policy: Policy) -> bool:
    """Return True if a policy implements `distribution`."""
    return overrides(policy, Policy, "distribution")


def has_memory(policy: Policy) -> bool:
    """Return True if a policy may remember earlier hands, so that its play does not follow from a turn."""
    return overrides(policy, Policy, "on_meta_episode_start", "on_hand_end")


def is_state_policy(policy: Policy) -> bool:
    """Return True if a policy declares that its distribution follows from the information state."""
    return policy.follows_information_state and has_distribution(policy)


# -- results and tasks -----------------------------------------------------------------------------------------

BY_THE_RULES, BY_TIMEOUT, BY_FORFEIT = "rules", "timeout", "forfeit"


class HandResult(NamedTuple):
    """The result of one hand for the learner."""

    value: float
    """The learner's return in the game's own unit (chips; 1/0/-1)."""
    seat: int = 0
    ended_by: str = BY_THE_RULES
    """`rules`, `timeout` (the turns ran out) or `forfeit` (an illegal answer lost the hand)."""
    success: bool | None = None
    """True if the game counts the hand as won (`State.won`), None if the value's sign decides."""
    observation: str = ""
    """The learner's last observation."""
    information_state: str = ""
    """Key of the learner's knowledge at the end; empty if the hand was not played to its end."""
    last_state: str = ""
    """The learner's view of the last state if the rules did not end the hand; `observation` is then a notice."""

    @classmethod
    def from_info(cls, entry: Mapping[str, Any]) -> Self:
        """Return the result that `to_info` returned as a dict. Every other reader of such a dict uses this function."""
        return cls(**entry)

    def to_info(self) -> dict[str, Any]:
        """Return the result as an entry of `info["hand_results"]`, by a literal: `_asdict` takes twice as long."""
        value, seat, ended_by, success, observation, information_state, last_state = self
        return {
            "value": value,
            "seat": seat,
            "ended_by": ended_by,
            "success": success,
            "observation": observation,
            "information_state": information_state,
            "last_state": last_state,
        }


def hand_results(info: Mapping[str, Any]) -> list[HandResult]:
    """Return the hands that ended in the step which returned this `info`. Any environment may omit them."""
    return [HandResult.from_info(entry) for entry in info.get("hand_results", ())]


def is_success(hands: Sequence[HandResult]) -> bool:
    """Return True if an episode of these hands succeeded. An episode with a timeout never does."""
    # If the game judges hands itself (`State.won`), every hand must be a success. A forfeited hand has no verdict, so
    # any other hand shows it.
    total, has_verdicts, won = 0.0, False, True
    for value, _, ended_by, success, _, _, _ in hands:
        if ended_by == BY_TIMEOUT:
            return False
        has_verdicts = has_verdicts or success is not None
        won = won and bool(success)
        total += value
    return won if has_verdicts else total > 0


SUCCESS, FAILURE, DRAW = "success", "failure", "draw"
"""Outcomes of an episode."""


def episode_outcome(hands: Sequence[HandResult]) -> str:
    """Return the outcome by the verdict (`State.won`), which knows no draw, or by the return. A timeout fails."""
    if is_success(hands):
        return SUCCESS
    lost = any(hand.ended_by == BY_TIMEOUT or hand.success is not None for hand in hands)
    return FAILURE if lost or sum(hand.value for hand in hands) < 0 else DRAW


@dataclass(frozen=True)
class Task:
    """One evaluation unit: an environment, an opponent, a seat and a seed. A suite is a tuple of tasks."""

    env_id: str
    opponent: str | None = None
    """Registered opponent name; if None, the seed draws one from the environment's default."""
    seat: int | None = None
    """Seat of the first hand (seat0); if None, the seed draws it."""
    seed: int = 0
    """Seed below 2**53, so that every JSON reader keeps its value."""
    task_id: str | None = None
    """The game's own task id (a goal, a game file); if None, the seed draws one."""
    rotation: int = 0
    """Number of places by which the tasks of a series move: episode k of K has the task of episode k + rotation."""

    def options(self) -> dict[str, Any]:
        """Return the options of `reset`. Only those that the task sets: an environment refuses unknown ones."""
        values = {"opponent": self.opponent, "seat": self.seat, "task": self.task_id, "rotation": self.rotation or None}
        return {key: value for key, value in values.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values. Only a rotated task has the key `rotation`."""
        # Most tasks are not rotated, and their records and fingerprints must not depend on this field.
        return {key: value for key, value in vars(self).items() if key != "rotation" or value}
