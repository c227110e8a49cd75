"""`TextGameEnv`: one episode of a text game as a Gymnasium environment, with opponents in the other seats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding

from mage_envs.core import BY_TIMEOUT, Game, GameSpec, HandResult, Policy, is_success
from mage_envs.drawing.screen import FPS, Screen
from mage_envs.hand import Hand, OpponentFailure, Seat, Table
from mage_envs.loading.defaults import overrides
from mage_envs.loading.options import check_choice, check_positive
from mage_envs.random.streams import POOL, SEED_BITS, Streams
from mage_envs.settings import GameSettings
from mage_envs.spaces import FreeText
from mage_envs.text.parser import OVERFLOW, Reply, without_tag

__all__ = ["OpponentFailure", "OpponentSource", "Seated", "TextGameEnv"]

MAX_HANDS = 10_000
"""Limit of hands per episode."""
MAX_REDEALS = 50
"""Maximum number of new deals after hands that ended without a decision of the learner."""
REDEAL_BITS = 16
"""Bits of a hand's number below the count of its redeals. They must hold `MAX_HANDS`."""
SEATINGS = ("first", "second", "alternate", "fixed")
"""Rules for the learner's seat in hand j: always 0, always 1, (seat0 + j) mod players, or always seat0."""
ON_INVALID = ("retry", "forfeit")
"""Effects of an illegal action: spend a turn and keep the state, or lose the hand at the game's worst return."""


class _ResetChoices(NamedTuple):
    """Values of `reset(options=...)`."""

    opponent: str | None = None
    seat: int | str | None = None
    task: str | None = None
    episode: int = 0
    deal: int | None = None


_NO_CHOICES = _ResetChoices()


class SeatPlan(NamedTuple):
    """The learner's seats under one of `SEATINGS`."""

    firsts: tuple[int, ...]
    """Possible seats in the first hand of a meta-episode."""
    courses: tuple[tuple[int, ...], ...]
    """Seats in the hands of an episode, by the first of them."""
    moved: int
    """Number of seats that the learner moves per episode."""


@lru_cache(maxsize=64)
def seat_plan(rule: str, players: int, hands: int) -> SeatPlan:
    """Return the seats under a rule.

    Args:
        rule: One of `SEATINGS`.
        hands: Number of hands per episode.
    """
    fixed_seat = {"first": 0, "second": 1}.get(rule)
    step = 1 if rule == "alternate" else 0
    return SeatPlan(
        # A game with one player has only seat 0, which the rule "second" must not exclude.
        firsts=tuple(range(players)) if fixed_seat is None or players == 1 else (fixed_seat,),
        courses=tuple(tuple((seat + step * hand) % players for hand in range(hands)) for seat in range(players)),
        moved=step * hands,
    )


def _is_overflow(action: Any) -> bool:
    """Return True for a `Reply` that overflowed. Raise TypeError if the action is no string."""
    if not isinstance(action, str):
        raise TypeError(f"step() expects an action as str, got {type(action).__name__}.")
    return isinstance(action, Reply) and action.overflow


class Seated:
    """The opponents of one episode or meta-episode: one policy per other seat, in playing order after the learner."""

    def __init__(self, name: str, others: Sequence[Seat]) -> None:
        self.name = name
        self.others = tuple(others)
        players = len(self.others) + 1
        self.around = [
            Table(None if seat == learner else self.others[(seat - learner - 1) % players] for seat in range(players))
            for learner in range(players)
        ]
        """Tables by the learner's seat, which is open in them."""
        self.tellers = [seat.policy for seat in self.others if overrides(seat.policy, Policy, "model_calls")]
        """Policies that call a model, found once, because an environment looks for their calls after every episode."""

    def model_calls(self) -> list[Mapping[str, Any]]:
        """Return the opponents' calls of models since the meta-episode began."""
        return [call for teller in self.tellers for call in teller.model_calls()]


class OpponentSource(ABC):
    """A source of opponents for an environment."""

    @abstractmethod
    def draw(self, streams: Streams) -> Seated:
        """Return opponents drawn from the pool by the streams' role POOL. A single opponent needs no draw."""

    @abstractmethod
    def find(self, name: str) -> Seated:
        """Return the opponent with this registered name."""


class TextGameEnv(gym.Env[str, str]):
    """One episode (of `hands_per_episode` hands) of `game` against opponents drawn from `opponents`.

    Action: the plain action text. Observation: the raw text for the learner's seat, after the results of hands that
    ended within the step. Reward: the sum of the game's own returns of these hands (chips; 1/0/-1), or 0.
    An illegal action pays 0 and spends a turn. If a hand has used `max_turns` answers, the episode terminates as a
    timeout. Unplayed hands then count `timeout_value`. The running hand does so too, unless the game pays on the way.
    `info`: see docs/environments.md.

    An episode is a function of (seed, options, answers). `reset(seed=s, options={"episode": k})` starts episode k of
    the meta-episode of seed s: the same opponent, the next seats, and deals of its own.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": FPS}  # noqa: RUF012  (Gymnasium's annotation)
    """Metadata of the class. An instance has the render modes of its game."""
    _generator: np.random.Generator | None = None
    reset_options: ClassVar[tuple[str, ...]] = _ResetChoices._fields
    """Keys of `reset(options=...)`.

    `opponent`: a registered name. `seat`: the seat of the first hand of episode 0 as a number, or one of `SEATINGS`,
    which replaces the rule of the environment. `task`: a task id. `episode`: the episode's index. `deal`: the index of
    the episode whose deals are dealt (default: the episode's own).
    """

    def __init__(
        self,
        game: Game,
        opponents: OpponentSource,
        *,
        settings: GameSettings | None = None,
        seat: str = "alternate",
        hands_per_episode: int = 1,
        max_turns: int | None = None,
        on_invalid: str = "retry",
        timeout_value: float | None = None,
        reveal_opponent: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Create an environment.

        Args:
            settings: Settings of prompts and training, for wrappers (default: `GameSettings()`).
            seat: Rule for the learner's seat, one of `SEATINGS`.
            hands_per_episode: Number of hands, 10,000 at most.
            max_turns: Answers of the learner before a hand times out (default: the game's limit).
            on_invalid: Effect of an illegal action, one of `ON_INVALID`.
            timeout_value: Return of each unplayed hand after a timeout, and of the running hand unless its game pays
                on the way (default: the game's worst return).
            reveal_opponent: True if `info` names the opponent from the start, not only at the end.
            render_mode: None, `ansi`, or, if the game has pictures, `rgb_array` or `human`.

        Raises:
            ValueError: If an option has an unknown value.
        """
        check_choice("seat", seat, SEATINGS)
        check_choice("on_invalid", on_invalid, ON_INVALID)
        check_positive("hands_per_episode", hands_per_episode, MAX_HANDS)
        self.game = game = game if max_turns is None else game.with_limit(max_turns)
        self.settings = settings or GameSettings()
        self.opponents = opponents
        self.max_turns = game.spec.max_turns if max_turns is None else max_turns
        check_positive("max_turns", self.max_turns)
        if game.spec.series and game.spec.perfect_information:
            raise ValueError(f"{game.spec.name}: a series hides its fact, so spec.perfect_information must be False.")
        self.hand = Hand(
            game,
            max_turns=max_turns,
            forfeits=on_invalid == "forfeit",
            timeout_value=timeout_value,
            hands_per_episode=hands_per_episode,
        )
        """The current hand."""
        self.hands: list[HandResult] = []
        """Results of the finished hands of the current episode."""
        self.seated = Seated("", ())
        self.seat = 0
        """The learner's seat in the current hand."""
        self.over = True
        self.observation_space = FreeText()
        self.action_space = FreeText()
        self.render_mode = render_mode
        self._screen = Screen(game.spec, render_mode)
        self.metadata = self._screen.metadata
        self._plan = seat_plan(seat, game.spec.players, hands_per_episode)
        self.seats_change = self._plan.moved > 0
        """True if the learner's seat changes from hand to hand of this episode."""
        self._course = self._plan.courses[0]
        """The learner's seats in the hands of this episode."""
        self._reveals = reveal_opponent
        self._lists_history = game.spec.perfect_information
        self._streams: Streams | None = None
        self._choices = _NO_CHOICES
        self._has_extras = False
        """True if `_add_extras` applies in this episode."""
        self._ended: list[HandResult] = []
        """Results of the hands that ended since the last answer."""
        self._earned = 0.0
        """Sum of the returns of these hands."""
        self._earlier: list[str] = []
        """Last observations of those of these hands that another hand followed."""

    @property
    def game_spec(self) -> GameSpec:
        """Return the facts of the game."""
        return self.game.spec

    def describe_opponent(self) -> str:
        """Return the game's sentence about the current opponent, for agents that are given it."""
        return self.game.describe_opponent(self.seated.name)

    @property
    def seats(self) -> tuple[int, ...]:
        """Return the learner's possible seats in the first hand of a meta-episode, unless `options` choose one."""
        return self._plan.firsts

    @property
    def hands_per_episode(self) -> int:
        """Return the number of hands per episode."""
        return len(self._course)

    # -- Gymnasium ------------------------------------------------------------------------------------------

    # Gymnasium's generator is made when it is read, because that takes 10 us and most episodes draw nothing from it.
    @property
    def _np_random(self) -> np.random.Generator | None:
        if self._generator is None and self._np_random_seed is not None:
            self._generator = seeding.np_random(self._np_random_seed)[0]
        return self._generator

    @_np_random.setter
    def _np_random(self, generator: np.random.Generator | None) -> None:
        self._generator = generator

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode. The keys of `options` are `reset_options`.

        Without a seed, the first reset draws one from `np_random`. Later resets use the streams after the last ones.
        """
        choices = self._check_options(options) if options else _NO_CHOICES
        streams = self._begin(seed, choices)
        name, seat, _, episode, _ = choices
        plan, hand = self._plan, self.hand
        self.seated = seated = self.opponents.draw(streams) if name is None else self.opponents.find(name)
        if isinstance(seat, str):
            plan, seat = seat_plan(seat, self.game.spec.players, self.hands_per_episode), None
        firsts, courses, moved = plan
        self.seats_change = moved > 0
        if seat is None:
            seat = firsts[0] if len(firsts) == 1 else int(streams.number(POOL) * len(courses))
        self._course = courses[(seat + moved * episode) % len(courses)]
        self.hands, self._ended, self._earned, self._earlier, self.over = [], [], 0.0, [], False
        # Only episode 0 begins a meta-episode. Opponents keep their memory in the later episodes.
        if episode == 0:
            hand.on_meta_episode_start(seated.around[seat])
        self._deal(0)
        # In some games the learner's seat never has a decision.
        if hand.over:
            self._settle()
        if self.render_mode == "human":
            self._screen.show(hand.state, self.seat)
        observation, info = self._observe()
        info["max_steps"] = hand.max_turns if len(self._course) == 1 else self.max_turns * len(self._course)
        return observation, info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play an action text. A `Reply` that overflowed holds no answer and ends the episode as a timeout."""
        hand, reason = self.hand, None
        # Almost every action is a plain string, which needs no further check.
        overflow = type(action) is not str and _is_overflow(action)
        if not self.over:
            if overflow:
                reason = OVERFLOW
                hand.time_out()
            else:
                reason = hand.answer(without_tag(action))
            if hand.over:
                self._settle()
        elif not self._ended:
            # Otherwise the episode ended within reset, without a decision: the first step returns its results.
            raise gym.error.ResetNeeded("The episode is over (or was never started): call reset() before step().")
        if self.render_mode == "human":
            self._screen.show(self.hand.state, self.seat)
        observation, info = self._observe()
        info["action"] = hand.played
        if reason is not None:
            info["invalid_reason"] = reason
        if not self._ended:
            return observation, 0.0, False, False, info
        reward = self._earned
        info["hand_results"] = [result.to_info() for result in self._ended]
        self._ended, self._earned, self._earlier = [], 0.0, []
        if self.over:
            seated, private = self.seated, info["private"]
            info["success"] = is_success(self.hands)
            info["timeout"] = self.hands[-1].ended_by == BY_TIMEOUT
            private["opponent"] = seated.name
            if seated.tellers and (calls := seated.model_calls()):
                private["opponent_calls"] = calls
        else:
            # `observation` starts with the results of the last hands. The anchor is the new hand's text alone.
            info["anchor"] = hand.state.observation(self.seat)
        return observation, reward, self.over, False, info

    def render(self) -> Any:
        """Return the observation (mode `ansi`) or an image (`rgb_array`), or show the image in a window (`human`).

        In mode `human`, each reset and step shows the image too.
        """
        if self.render_mode is None:
            return None
        if self.over and not self.hands:
            raise gym.error.ResetNeeded("There is nothing to show before the first episode: call reset() first.")
        if self.render_mode == "ansi":
            return self.hand.state.observation(self.seat)
        if self.render_mode == "rgb_array":
            return self._screen.image(self.hand.state, self.seat)
        self._screen.show(self.hand.state, self.seat)
        return None

    def close(self) -> None:
        """Close the window if one is open. The next reset or step opens it again."""
        self._screen.close()

    # -- the course of an episode ---------------------------------------------------------------------------

    def _begin(self, seed: int | None, choices: _ResetChoices) -> Streams:
        """Return the streams of the seed, and start the episode in `hand`.

        Without a seed, return the streams after the last ones. At the first reset, return those of a drawn seed.
        """
        streams = self._streams
        if seed is None and streams is not None:
            # This changes the streams in place, and `hand` holds the same object.
            streams.advance()
            if choices is self._choices:
                return streams
        else:
            if seed is None:
                seed = int(self.np_random.integers(2**SEED_BITS))
            elif not isinstance(seed, int) or seed < 0:
                # Raises Gymnasium's error.
                seeding.np_random(seed)
            elif not choices.episode or seed != self._np_random_seed:
                self._np_random_seed, self._generator = seed, None
            self._streams = streams = Streams(seed)
        self._choices = choices
        self._has_extras = bool(choices.episode) or self._reveals or not self.game.spec.shows_legal_actions
        self.hand.begin_episode(streams, episode=choices.episode, deal_episode=choices.deal, task_id=choices.task)
        return streams

    def _deal(self, number: int) -> None:
        """Start a hand of this episode, in which the learner has a decision if the game allows it.

        The opponents' moves alone may end a hand, as in Euchre if a player plays alone. Such a hand is dealt again.
        """
        self.seat = seat = self._course[number]
        table, hand = self.seated.around[seat], self.hand
        hand.deal(table, number)
        redeals = 0
        # A series has one task per hand, so another deal would take the place of another task.
        while hand.over and redeals < MAX_REDEALS and not hand.game.spec.series:
            redeals += 1
            # The high bits of the hand's number give each redeal streams of its own.
            hand.deal(table, number + (redeals << REDEAL_BITS))

    def _settle(self) -> None:
        """Store the finished hand, then deal hands until the learner must answer or the episode is over."""
        hand = self.hand
        while hand.over:
            result = hand.state.result(self.seat)
            self._file(result)
            if result.ended_by == BY_TIMEOUT:
                # A timeout ends the episode, so the hands that were never played need results, too.
                for seat in self._course[len(self.hands) :]:
                    self._file(result._replace(value=hand.timeout_value, seat=seat))
            if len(self.hands) == len(self._course):
                self.over = True
                return
            self._earlier.append(result.observation)
            self._deal(len(self.hands))

    def _file(self, result: HandResult) -> None:
        self.hands.append(result)
        self._ended.append(result)
        self._earned += result.value

    # -- observations and options ---------------------------------------------------------------------------

    def _observe(self) -> tuple[str, dict[str, Any]]:
        """Return the raw text and its `info`. Hands that ended since the last answer come first in the text."""
        seat, state = self.seat, self.hand.state
        # States of table games share one `info` dict among all episodes, so it is copied before entries are added.
        observation, info = state.observation(seat), state.info(seat).copy()
        if self._earlier:
            observation = "\n\n".join([*self._earlier, observation])
        info["messages"] = [{"role": "user", "content": observation}]
        info["private"] = {**info["private"]} if info["private"] else {}
        if self._has_extras:
            self._add_extras(info)
        if self.hands:
            info["hand"] = len(self.hands)
        if self._lists_history:
            info["history"] = tuple(self.hand.moves)
        return observation, info

    def _add_extras(self, info: dict[str, Any]) -> None:
        """Add the entries of later episodes, revealed opponents and hidden actions. Most steps need none of them."""
        info["episode_index"] = self._choices.episode
        if self._reveals:
            info["private"]["opponent"] = self.seated.name
        if not self.game.spec.shows_legal_actions:
            info["private"]["legal_actions"], info["legal_actions"] = info["legal_actions"], ()

    def _check_options(self, options: dict[str, Any]) -> _ResetChoices:
        """Return the options as `_ResetChoices`. Raises ValueError if a key is unknown or a value is invalid."""
        if unknown := [key for key in options if key not in self.reset_options]:
            known_keys = ", ".join(self.reset_options)
            raise ValueError(f"reset(options=...) has unknown keys {sorted(unknown)}; known: {known_keys}.")
        choices, players = _ResetChoices(**options), self.game.spec.players
        if choices.seat is not None and choices.seat not in (*range(players), *SEATINGS):
            raise ValueError(
                f"reset(options={{'seat': {choices.seat!r}}}) must be a seat from 0 to {players - 1}, or one of "
                f"{', '.join(SEATINGS)}."
            )
        for key in ("episode", "deal"):
            value = options.get(key, 0)
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"reset(options={{{key!r}: {value!r}}}) must be a whole number from 0.")
        return choices
