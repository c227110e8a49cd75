"""The nouns of the suite: a game, its states, a turn, a policy, a task.

Everything above this file speaks only these types. A `Game` is a value that holds rules; a `State` is one point of a
hand, a value too; a policy sees a `Turn`, never the state, so it cannot peek.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from mage_envs.drawing.picture import Picture
from mage_envs.text.spelling import WordsOfState, split_at_blanks


class IllegalAction(ValueError):
    """An action text that the rules do not allow now; nothing has changed."""

    def __init__(self, action: str, legal_actions: Sequence[str]) -> None:
        shown = action if len(action) <= 40 else action[:37] + "..."
        super().__init__(f"{shown!r} is not legal; choose one of: {', '.join(legal_actions)}.")
        self.action, self.legal_actions = action, legal_actions

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.action, self.legal_actions)


class NotEnumerable(TypeError):
    """A game whose whole tree is not at hand; the message says why."""


# -- games -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class GameFacts:
    """What is true of all hands of a game."""

    name: str
    """Name in ids: `KuhnPoker` gives `mage/KuhnPoker-v0`."""
    rules: str
    """Prose for the prompt: rules, goal, and the form of an action."""
    players: int = 2
    unit: str = "points"
    """Unit of the returns, for tables."""
    min_return: float = -1.0
    """The worst return of a hand, in the game's unit."""
    max_return: float = 1.0
    perfect_information: bool = False
    max_turns: int = 20
    """Answers that one player has in a hand, where nothing else is said."""
    actions: tuple[str, ...] | None = None
    """All action texts in a fixed order; None where there is no fixed set (free text)."""
    words: WordsOfState = field(default=split_at_blanks, compare=False, repr=False)
    """How an information state reads as words, for the prompt style `words`: a function of a module."""
    shows_legal_actions: bool = True
    """Whether prompts list the legal actions; `info["legal_actions"]` has them in any case."""
    pays_on_the_way: bool = False
    """Whether `State.returns` counts while a hand goes on, so that a hand that is stopped keeps it."""
    has_pictures: bool = False
    """Whether states have a `picture`, and environments the render modes `rgb_array` and `human`."""


class State(ABC):
    """One point of a hand: who is to move, what each player sees, what a move leads to.

    A value: `after` gives another state and leaves this one as it is. An engine that keeps its state (ALFWorld's) may
    return itself changed; then only the result is valid.
    """

    if TYPE_CHECKING:  # a subclass may make these fields, attributes or properties

        @property
        def player(self) -> int | None:
            """Who is to move; None when the hand is over."""
            ...

        @property
        def legal_actions(self) -> tuple[str, ...]:
            """The mover's legal action texts in a fixed order; empty when the hand is over.

            Games of free text (WebShop) give examples or nothing; then `after` decides.
            """
            ...

        @property
        def returns(self) -> tuple[float, ...]:
            """Each player's return in the game's unit; zeros before the end, unless the game pays on the way."""
            ...

    happened: tuple[str, ...] = ()
    """What chance brought after the last move, in games of perfect information."""
    task: str | None = None
    """Id of the task that is played (a goal, a game file), in games that have such ids."""
    category: str | None = None
    """Class of what is played, for tables and logs ("2 boxes"); None where there is one kind only."""

    @abstractmethod
    def observation(self, seat: int) -> str:
        """What that player sees; after the end also the result."""

    def information_state(self, seat: int) -> str:
        """Key of what that player knows, equal exactly when it knows the same; the observation, unless shorter."""
        return self.observation(seat)

    @abstractmethod
    def after(self, action: str) -> State:
        """The state after the mover's `action` (and chance); raises `IllegalAction`, and then nothing has changed."""

    def canonical(self, action: str) -> str:
        """`action` as `legal_actions` spells it, where it is another spelling of a legal one."""
        return action

    def move(self, action: str) -> tuple[str, State]:
        """`canonical` and `after` at once, for games that find both in one look."""
        after = self.after(action)
        return self.canonical(action), after

    def told(self, seat: int) -> dict[str, Any]:
        """What `info` holds of this state for that player, in the first hand of an episode 0 and before any answer.

        The caller copies the dict, and does not change it.
        """
        info: dict[str, Any] = {
            "legal_actions": self.legal_actions,
            "information_state": self.information_state(seat),
            "episode_index": 0,
            "hand": 0,
            "seat": seat,
            "invalid_reason": None,
            "action": None,
        }
        if metrics := self.metrics():
            info["metrics"] = dict(metrics)
        if self.task is not None:
            info["task"] = self.task
        if self.category is not None:
            info["category"] = self.category
        return info

    def won(self, seat: int) -> bool | None:
        """Whether the finished hand is a success for that player; None where the sign of the return says it."""
        return None

    def result(self, seat: int) -> HandResult:
        """How the hand that is over ended for that player."""
        return HandResult(
            value=self.returns[seat],
            seat=seat,
            success=self.won(seat),
            observation=self.observation(seat),
            information_state=self.information_state(seat),
        )

    def metrics(self) -> Mapping[str, float]:
        """What nobody at the table may know, by name, for logs and evaluation: `info["metrics"]`."""
        return {}

    def picture(self, seat: int) -> Picture:
        """What that player may see now, as a picture, in games that have pictures."""
        raise TypeError(f"{type(self).__name__} has no picture; it is shown as text alone.")


class Game(ABC):
    """The rules of a turn-based game in text, for 1 to N players; an instance is never changed by play."""

    facts: GameFacts

    @abstractmethod
    def initial_state(self, rng: np.random.Generator) -> State:
        """The first state of a hand; all chance comes from `rng`."""

    def initial_states(self) -> Sequence[tuple[float, State]]:
        """Every first state with its probability, no chance left below them; the same objects at each call.

        Raises `NotEnumerable` for a game that has no such tree at hand.
        """
        raise NotEnumerable(f"{self.facts.name} has no tree at hand: it defines no initial_states().")

    def task_state(self, task: str, rng: np.random.Generator) -> State:
        """The first state of that task; raises `ValueError` for an unknown id."""
        raise ValueError(f"{self.facts.name} has no tasks to choose from; leave task={task!r} out.")

    def data_hash(self) -> str | None:
        """A hash of the data that tasks come from, for records; None where the options alone say what is played."""
        return None

    def family(self, task: str) -> str | None:
        """What that task shares with others, whose results are then no independent draws; None: it stands alone."""
        return None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class Turn(NamedTuple):
    """Everything one player may know when asked to move."""

    player: int
    observation: str
    legal_actions: tuple[str, ...]
    information_state: str
    """Key that is equal exactly when the player knows the same; tables of policies use it."""
    episode: int = 0
    """Index of the episode in the meta-episode (0 outside of one)."""
    history: tuple[str, ...] = ()
    """All actions so far, by all players and by chance, in games of perfect information; else empty."""
    task: str | None = None
    """Id of the task that is played, in games that tell it (as `info["task"]` does); no prompt shows it."""
    success: bool | None = None
    """In `SeesResults.see_result`: whether the game itself calls the hand won; None where the return's sign says it."""


# -- policies --------------------------------------------------------------------------------------------------


@runtime_checkable
class Policy(Protocol):
    """What plays a seat. Any class with these two methods is one; there is no base class."""

    def reset(self, rng: np.random.Generator) -> None:
        """Starts a hand; `rng` is the policy's only source of randomness until the next reset."""

    def act(self, turn: Turn) -> str:
        """Returns one of `turn.legal_actions`."""
        ...


@runtime_checkable
class RemembersMetaEpisode(Protocol):
    """A policy that keeps something between the hands of a meta-episode."""

    def begin_meta_episode(self) -> None:
        """Forgets everything; called once before episode 0."""


@runtime_checkable
class SeesResults(Protocol):
    """A policy that is told how each hand ended, as its seat sees it."""

    def see_result(self, turn: Turn) -> None:
        """A hand was played to its end; `turn` has no legal actions and holds the last observation of the seat."""


@runtime_checkable
class TellsCalls(Protocol):
    """A policy that asks a model, and tells what it was answered, so that a meta-episode can be executed again."""

    def told_calls(self) -> Sequence[Mapping[str, Any]]:
        """Every call since the meta-episode began, as JSON values."""
        ...


@runtime_checkable
class ExactPolicy(Policy, Protocol):
    """A policy whose action probabilities are known exactly, so that ceilings against it can be computed."""

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        """Probability of every legal action (missing ones are 0); sums to 1, depends on `turn` alone."""
        ...


@runtime_checkable
class StatePolicy(ExactPolicy, Protocol):
    """An exact policy that says whether its distribution follows from `turn.information_state` alone.

    Where it does, its replies may be tabulated: they are then drawn from `distribution`, one uniform number a decision
    (none where one action is certain), and `act` need not be called.
    """

    follows_information_state: bool


def is_state_policy(policy: object) -> bool:
    """Whether a policy declares that its distribution follows from the information state."""
    return isinstance(policy, StatePolicy) and policy.follows_information_state


# -- results and tasks -----------------------------------------------------------------------------------------

BY_THE_RULES, BY_TIMEOUT, BY_FORFEIT = "rules", "timeout", "forfeit"


class HandResult(NamedTuple):
    """How one hand ended for the learner."""

    value: float
    """The learner's return in the game's own unit (chips; 1/0/-1)."""
    seat: int = 0
    ended_by: str = BY_THE_RULES
    """`rules`; `timeout`: its turns ran out; `forfeit`: an illegal answer lost it."""
    success: bool | None = None
    """Whether the game itself calls the hand won (`State.won`); None where the value says it, by its sign."""
    observation: str = ""
    """What the learner saw last."""
    information_state: str = ""
    """What it knew at the end, as a key; empty where the hand was not played to its end."""

    def told(self) -> dict[str, Any]:
        """As `info["hand_results"]` has it."""
        value, seat, ended_by, success, observation, information_state = self
        return {
            "value": value,
            "seat": seat,
            "ended_by": ended_by,
            "success": success,
            "observation": observation,
            "information_state": information_state,
        }


def is_success(hands: Sequence[HandResult]) -> bool:
    """Whether an episode of these hands succeeded; one with a timeout never does."""
    total, judged = 0.0, bool(hands) and hands[0].success is not None
    for value, _, ended_by, success, _, _ in hands:
        if ended_by == BY_TIMEOUT or (judged and not success):
            return False
        total += value
    return judged or total > 0


SUCCESS, FAILURE, DRAW = "success", "failure", "draw"
"""Outcomes of an episode."""


def episode_outcome(hands: Sequence[HandResult]) -> str:
    """Return `SUCCESS`, `FAILURE` or `DRAW` for an episode of these hands.

    The game's own verdict decides if it has one (`State.won`): then draws do not exist. Otherwise the sign of the total
    return decides. A timeout is a failure.
    """
    if is_success(hands):
        return SUCCESS
    lost = any(hand.ended_by == BY_TIMEOUT or hand.success is not None for hand in hands)
    return FAILURE if lost or sum(hand.value for hand in hands) < 0 else DRAW


@dataclass(frozen=True)
class Task:
    """One evaluation unit: what to play, against whom, from where. A suite is a tuple of tasks."""

    env_id: str
    opponent: str | None = None
    """Registered opponent name; None: drawn from the environment's default by the seed."""
    seat: int | None = None
    """Seat of the first hand (seat0); None: from the seed."""
    seed: int = 0
    """Below 2**53, so that every JSON reader keeps it."""
    task_id: str | None = None
    """The game's own id of what is played (a goal, a game file); None: drawn by the seed."""
