"""`TextGameEnv`: one episode of a text game as a Gymnasium environment, the other seats taken by opponents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import gymnasium as gym

from mage_envs.checks import check_choice, check_positive
from mage_envs.core import BY_TIMEOUT, Game, GameFacts, HandResult, is_success
from mage_envs.drawing.screen import FPS, Screen
from mage_envs.hand import Hand, OpponentFailure
from mage_envs.randomness import POOL, SEED_BITS, Streams
from mage_envs.seats import Seat, Table
from mage_envs.settings import GameSettings
from mage_envs.spaces import FreeText
from mage_envs.text.parser import OVERFLOW, Reply

__all__ = ["OpponentFailure", "OpponentSource", "Seated", "TextGameEnv"]

MAX_HANDS = 10_000
"""Of an episode."""
SEATINGS = ("first", "second", "alternate", "fixed")
"""Seat of hand j: always first, always second, (seat0 + j) mod players, or seat0 throughout."""
ON_INVALID = ("retry", "forfeit")
"""An illegal action leaves the state and spends a turn, or loses the hand at the game's worst return."""


class _Chosen(NamedTuple):
    """What `reset(options=...)` chooses."""

    opponent: str | None = None
    seat: int | None = None
    task: str | None = None
    episode: int = 0
    deal: int | None = None


_NOTHING = _Chosen()


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
        """By the learner's seat: the table, that seat open."""
        self.remembers = any(seat.remembering is not None for seat in self.others)
        """Whether a policy is told that a meta-episode begins."""
        self.tellers = [seat.teller for seat in self.others if seat.teller is not None]
        """Policies that tell what models answered them."""

    def told_calls(self) -> list[Mapping[str, Any]]:
        """What models answered the opponents since the meta-episode began."""
        return [call for teller in self.tellers for call in teller.told_calls()]


class OpponentSource(Protocol):
    """Where an environment gets its opponents from."""

    def draw(self, streams: Streams) -> Seated:
        """Draws from the pool by the streams' role POOL; a single opponent draws nothing."""
        ...

    def named(self, name: str) -> Seated:
        """The opponent of that registered name."""
        ...


class TextGameEnv(gym.Env[str, str]):
    """One episode (of `hands_per_episode` hands) of `game` against opponents drawn from `opponents`.

    Action: the plain action text. Observation: the raw text for the learner's seat; results of hands that ended within
    the step come first. Reward: the game's own return of each hand that ended in the step (chips; 1/0/-1), else 0.
    An illegal action pays 0 and spends a turn. Running out of `max_turns` answers in a hand terminates the episode as a
    timeout; the running and the unplayed hands then count `timeout_value`. `info`: see docs/environments.md.

    An episode is a function of (seed, options, answers). `reset(seed=s, options={"episode": k})` starts episode k of
    the meta-episode of seed s: the same opponent, the next seats, deals of its own.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": FPS}  # noqa: RUF012  (Gymnasium's annotation)
    """The class's; an instance has its game's modes."""
    reset_options: ClassVar[tuple[str, ...]] = _Chosen._fields
    """What `reset(options=...)` may hold: a registered name; the seat of the first hand of episode 0; a task's id; the
    episode's index; the index of the episode whose deals are dealt (its own by default)."""

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
        timeout_value: float = 0.0,
        reveal_opponent: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """`reveal_opponent`: `info` names the opponent from the start, not at the end alone."""
        check_choice("seat", seat, SEATINGS)
        check_choice("on_invalid", on_invalid, ON_INVALID)
        check_positive("hands_per_episode", hands_per_episode, MAX_HANDS)
        self.game = game
        self.settings = settings or GameSettings()
        self.opponents = opponents
        self.max_turns = game.facts.max_turns if max_turns is None else max_turns
        check_positive("max_turns", self.max_turns)
        self.hand = Hand(game, max_turns=self.max_turns, forfeits=on_invalid == "forfeit", timeout_value=timeout_value)
        """The hand that is being played."""
        self.hands: list[HandResult] = []
        """Results of the hands of the running episode."""
        self.seated = Seated("", ())
        self.seat = 0
        """The learner's seat in the running hand."""
        self.over = True
        self.observation_space = FreeText()
        self.action_space = FreeText()
        self.render_mode = render_mode
        self._screen = Screen(game.facts, render_mode)
        self.metadata = self._screen.metadata
        players = game.facts.players
        one = {"first": 0, "second": 1}.get(seat)
        self.seats: tuple[int, ...] = tuple(range(players)) if one is None or players == 1 else (one,)
        """Where the learner may sit in the first hand of a meta-episode, where nobody says otherwise."""
        moves_on = 1 if seat == "alternate" else 0
        self._moved = moves_on * hands_per_episode
        """Seats that the learner has moved on after an episode."""
        self._courses = [
            [(first + moves_on * number) % players for number in range(hands_per_episode)] for first in range(players)
        ]
        """The learner's seats in the hands of an episode, by the first of them."""
        self._course = self._courses[0]
        self._reveals = reveal_opponent
        self._lists_history = game.facts.perfect_information
        self._streams: Streams | None = None
        self._chosen = _NOTHING
        self._throughout: dict[str, Any] = {}
        """What `info` holds throughout the episode."""
        self._ended: list[dict[str, Any]] = []
        """What is told of hands that ended since the last answer, and what they paid."""
        self._earned = 0.0
        self._earlier: list[str] = []
        """What the learner saw last of those of them that another hand followed."""

    @property
    def facts(self) -> GameFacts:
        """The game's."""
        return self.game.facts

    @property
    def hands_per_episode(self) -> int:
        """Hands that an episode has."""
        return len(self._course)

    # -- Gymnasium ------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Starts an episode; `options` as in `reset_options`. Without a seed, one is drawn from `np_random`."""
        chosen = self._checked(options) if options else _NOTHING
        streams = self._begin(seed, chosen)
        name, seat, _, episode, _ = chosen
        seats, hand = self.seats, self.hand
        self.seated = seated = self.opponents.draw(streams) if name is None else self.opponents.named(name)
        if self._reveals:
            self._throughout["opponent"] = seated.name
        if seat is None:
            seat = seats[0] if len(seats) == 1 else int(streams.number(POOL) * len(self._courses))
        self._course = self._courses[(seat + self._moved * episode) % len(self._courses)]
        self.hands, self._ended, self._earned, self._earlier, self.over = [], [], 0.0, [], False
        if seated.remembers and episode == 0:
            hand.begin_meta_episode(seated.around[seat])
        self._deal(0)
        if hand.over:
            self._settle()
        if self.render_mode == "human":
            self._screen.show(hand.state, self.seat)
        return self._shown()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays an action's text. A `Reply` that overflowed (there was no answer) ends the episode as a timeout."""
        if not isinstance(action, str):
            raise TypeError(f"step() takes an action as str, not {type(action).__name__}.")
        hand, reason = self.hand, None
        if not self.over:
            if isinstance(action, Reply) and action.overflow:
                reason = OVERFLOW
                hand.time_out()
            else:
                reason = hand.answer(action)
            if hand.over:
                self._settle()
        elif not self._ended:  # an episode without any decision of the learner ends with the first answer
            raise gym.error.ResetNeeded("The episode is over (or was never started): call reset() before step().")
        if self.render_mode == "human":
            self._screen.show(self.hand.state, self.seat)
        observation, info = self._shown()
        info["invalid_reason"], info["action"] = reason, hand.played
        reward = self._earned
        if not self._ended:
            return observation, reward, False, False, info
        info["hand_results"] = self._ended
        self._ended, self._earned, self._earlier = [], 0.0, []
        if self.over:
            seated = self.seated
            info["success"] = is_success(self.hands)
            info["timeout"] = self.hands[-1].ended_by == BY_TIMEOUT
            info["opponent"] = seated.name
            if seated.tellers and (calls := seated.told_calls()):
                info["opponent_calls"] = calls
        else:
            info["anchor"] = hand.state.observation(self.seat)
        return observation, reward, self.over, False, info

    def render(self) -> Any:
        """Mode `ansi`: the observation; `rgb_array`: an image; `human`: shows that in a window, as each step does."""
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
        """Closes the window, if one is open; it opens again with the next reset or step."""
        self._screen.close()

    # -- the course of an episode ---------------------------------------------------------------------------

    def _begin(self, seed: int | None, chosen: _Chosen) -> Streams:
        """The streams of a seed; without one those after the last, at first those of a drawn seed."""
        streams = self._streams
        if seed is None and streams is not None:
            streams.advance()
            if chosen is self._chosen:
                return streams  # the hand was told all of this
        else:
            if seed is None:
                seed = int(self.np_random.integers(2**SEED_BITS))
            elif not chosen.episode or seed != self._np_random_seed:
                super().reset(seed=seed)  # which costs 20 us: further episodes need not pay it again
            self._streams = streams = Streams(seed)
        self._chosen = chosen
        self._throughout = {"episode_index": chosen.episode} if chosen.episode else {}
        self.hand.begin_episode(streams, episode=chosen.episode, deal_episode=chosen.deal, task=chosen.task)
        return streams

    def _deal(self, number: int) -> None:
        """Starts a hand of this episode."""
        self.seat = seat = self._course[number]
        self.hand.deal(self.seated.around[seat], number)

    def _settle(self) -> None:
        """Files the hand that is over, and deals the next ones until the learner is asked or the episode is over."""
        hand = self.hand
        while hand.over:
            result = hand.state.result(self.seat)
            self._file(result)
            if result.ended_by == BY_TIMEOUT:
                for seat in self._course[len(self.hands) :]:  # never played
                    self._file(result._replace(value=hand.timeout_value, seat=seat))
            if len(self.hands) == len(self._course):
                self.over = True
                return
            self._earlier.append(result.observation)
            self._deal(len(self.hands))

    def _file(self, result: HandResult) -> None:
        self.hands.append(result)
        self._ended.append(result.told())
        self._earned += result.value

    # -- what is told ---------------------------------------------------------------------------------------

    def _shown(self) -> tuple[str, dict[str, Any]]:
        """The raw text now, what came of hands that ended before it since the last answer first, and its `info`."""
        seat, state = self.seat, self.hand.state
        observation, info = state.observation(seat), state.told(seat).copy()
        if self._earlier:
            observation = "\n\n".join([*self._earlier, observation])
        if self._throughout:
            info |= self._throughout
        if self.hands:
            info["hand"] = len(self.hands)
        if self._lists_history:
            info["history"] = tuple(self.hand.moves)
        return observation, info

    def _checked(self, given: dict[str, Any]) -> _Chosen:
        """The options, none of which means nothing here."""
        if unknown := [key for key in given if key not in self.reset_options]:
            known = ", ".join(self.reset_options)
            raise ValueError(f"reset(options=...) has unknown keys {sorted(unknown)}; known: {known}.")
        chosen, players = _Chosen(**given), len(self._courses)
        if chosen.seat is not None and chosen.seat not in range(players):
            raise ValueError(f"reset(options={{'seat': {chosen.seat!r}}}) must be a seat from 0 to {players - 1}.")
        for key in ("episode", "deal"):
            value = given.get(key, 0)
            if not isinstance(value, int) or value < 0:
                raise ValueError(f"reset(options={{{key!r}: {value!r}}}) must be a whole number from 0.")
        return chosen
