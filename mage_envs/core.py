"""The nouns of the suite: a game, a turn, a policy, a task.

Everything above this file speaks only these types. A game holds rules and text, nothing of Gymnasium or
torch; a policy sees a `Turn`, never the game, so it cannot peek.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from mage_envs.drawing.picture import Picture


class IllegalAction(ValueError):
    """An action text that the rules do not allow now; the game's state is unchanged."""

    def __init__(self, action: str, legal_actions: Sequence[str]) -> None:
        shown = action if len(action) <= 40 else action[:37] + "..."
        super().__init__(f"{shown!r} is not legal; choose one of: {', '.join(legal_actions)}.")


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
    """All actions so far, by all players, in games of perfect information; else empty."""
    task: str | None = None
    """Id of the task that is played, in games that tell it (as `info["task"]` does); no prompt shows it."""


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
class ExactPolicy(Protocol):
    """A policy whose action probabilities are known exactly, so that ceilings against it can be computed."""

    def reset(self, rng: np.random.Generator) -> None: ...

    def act(self, turn: Turn) -> str: ...

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        """Probability of every legal action (missing ones are 0); sums to 1, depends on `turn` alone."""
        ...


@runtime_checkable
class StatePolicy(Protocol):
    """A policy that is a function of the information state, so that its replies can be tabulated.

    If `deterministic`, it never draws; else it draws exactly one `rng.random()` per decision.
    """

    deterministic: bool

    def cuts(self, turn: Turn) -> tuple[tuple[tuple[float, str], ...], str]:
        """((threshold, action), ...) in rising order, and the action for draws above the last threshold."""
        ...


class HandResult(NamedTuple):
    """How one hand ended for the learner."""

    value: float
    """The learner's return in the game's own unit (chips; 1/0/-1)."""
    timeout: bool = False
    seat: int = 0
    success: bool | None = None
    """Whether the game itself calls the hand won (`TextGame.won`); None where the value says it, by its sign."""


EpisodeReward = Callable[[Sequence[HandResult], int], float]
"""Maps the hands finished so far and the number of hands planned to the task reward R so far.

It must be 0 for no hands. The reward of one hand is the difference it makes.
"""


def outcome_reward(hands: Sequence[HandResult], planned: int) -> float:
    """+10 for a positive episode total, -10 for a negative one, 0 for neither (method.md, Appendix A)."""
    total = sum(hand.value for hand in hands)
    return 10.0 if total > 0 else -10.0 if total < 0 else 0.0


def success_reward(hands: Sequence[HandResult], planned: int) -> float:
    """+10 when every hand so far is a success by the game's own word (`TextGame.won`), else -10."""
    if not hands:
        return 0.0
    return 10.0 if all(hand.success for hand in hands) else -10.0


def success_or_nothing(hands: Sequence[HandResult], planned: int) -> float:
    """10 when every hand so far is a success, else 0, as the released code pays for tasks."""
    return max(success_reward(hands, planned), 0.0)


class TextGame(ABC):
    """The rules of one turn-based game in text, for 1 to N players; one instance plays one hand at a time.

    Subclasses set the class attributes and write the abstract methods. `reset` may be called at any time.
    """

    name: ClassVar[str]
    """Name in ids: `KuhnPoker` gives `mage/KuhnPoker-v0`."""
    num_players: ClassVar[int] = 2
    rules: ClassVar[str]
    """Prose for the prompt: rules, goal, and the form of an action."""
    perfect_information: ClassVar[bool] = False
    min_return: ClassVar[float] = -1.0
    """The worst return of a hand, in the game's unit; what a timed-out hand counts where a protocol says so."""
    max_return: ClassVar[float] = 1.0
    max_turns: ClassVar[int] = 20
    """Default limit of the learner's answers per hand."""
    turn_limits: ClassVar[Mapping[str, int]] = {}
    """Named limits for meta-episodes where they are not `max_turns`: `task` (protocol adaptive), `released` (paper)."""
    length_penalty: ClassVar[float] = 0.0
    """c_len of the length penalty."""
    invalid_penalty: ClassVar[float] = 0.5
    default_opponent: ClassVar[Any] = "uniform"
    """Name, or mapping of names to weights (a pool), seated where the user names none."""
    history_window: ClassVar[int] = 7
    """Turns of the current episode shown in a play prompt."""
    full_turns: ClassVar[int] = 2
    """The newest turns of that window shown with their observation; older ones as action only."""
    reflect_window: ClassVar[int] = 7
    """Turns of an earlier episode shown in a reflect prompt or in the memory."""
    unit: ClassVar[str] = "points"
    """Unit of the returns, for tables."""
    rewards: ClassVar[Mapping[str, EpisodeReward]] = {"task": outcome_reward, "released": outcome_reward}
    """Named task rewards: `task` (protocol adaptive), `released` (protocol paper), others by name."""

    @abstractmethod
    def reset(self, rng: np.random.Generator) -> None:
        """Starts a fresh hand; all chance comes from `rng`."""

    @abstractmethod
    def current_player(self) -> int | None:
        """The player to move, None when the hand is over."""

    @abstractmethod
    def legal_actions(self) -> tuple[str, ...]:
        """The current player's legal action texts, in a fixed order; empty when the hand is over.

        Games of free text (WebShop) return examples or nothing; then `apply` decides.
        """

    @abstractmethod
    def observe(self, player: int) -> str:
        """What `player` sees now; after the end also the result."""

    @abstractmethod
    def apply(self, action: str) -> None:
        """Plays `action` for the current player, else raises `IllegalAction` with the state unchanged."""

    @abstractmethod
    def returns(self) -> tuple[float, ...]:
        """Each player's return in the game's unit; zeros before the end."""

    def information_state(self, player: int) -> str:
        """Key of what `player` knows; the observation, unless a game has a shorter one."""
        return self.observe(player)

    def history(self) -> tuple[str, ...]:
        """All actions so far in games of perfect information, else empty."""
        return ()

    def canonical(self, action: str) -> str:
        """`action` as `legal_actions` spells it, where it is another spelling of a legal one."""
        return action

    def actions(self) -> tuple[str, ...] | None:
        """The fixed set of all actions in a fixed order, None where the game has none (free text)."""
        return None

    def turn(self, player: int, episode: int = 0) -> Turn:
        """What `player` may know when asked to move."""
        return Turn(
            player,
            self.observe(player),
            self.legal_actions(),
            self.information_state(player),
            episode,
            self.history(),
        )

    def won(self, player: int) -> bool | None:
        """Whether the finished hand is a success for `player`; None where the sign of the return says it."""
        return None

    def return_if_stopped(self, player: int) -> float | None:
        """The return of a hand that is stopped now for want of turns; None: whatever the protocol counts for one."""
        return None

    def metrics(self) -> Mapping[str, float]:
        """What nobody at the table may know, by name, for logs and evaluation: `info["metrics"]`."""
        return {}

    def picture(self, player: int) -> Picture:
        """What `player` may see now, as a picture; a game that defines this has `rgb_array` and `human` rendering."""
        raise TypeError(f"{self.name} has no picture; it is shown as text alone.")

    def task_id(self) -> str | None:
        """Id of the task that is played (a goal, a game file); None where the game has no such ids."""
        return None

    def choose(self, task_id: str | None) -> None:
        """The following resets play this task; None: tasks are drawn again. Raises ValueError for an unknown id."""
        if task_id is not None:
            raise ValueError(f"{self.name} has no tasks to choose from; leave task={task_id!r} out.")

    def category(self) -> str | None:
        """Class of the running task, for tables and logs ("2 boxes"); None where there is one kind only."""
        return None

    def is_success(self, hands: Sequence[HandResult]) -> bool:
        """Whether an episode of these hands succeeded; a timeout never does."""
        return sum([hand.value for hand in hands]) > 0 and not any(hand.timeout for hand in hands)


@dataclass(frozen=True)
class Task:
    """One evaluation unit: what to play, against whom, from where. A suite is a tuple of tasks."""

    env_id: str
    opponent: str | None = None
    """Registered opponent name; None: drawn from the environment's default by the seed."""
    seat: int | None = None
    """Seat of the first hand (seat0); None: from the seed."""
    seed: int = 0
    task_id: str | None = None
    """The game's own id of what is played (a goal, a game file); None: drawn by the seed."""
