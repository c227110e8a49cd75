"""`Hand`: the only place where a hand is played. It deals, plays answers and policies' moves, and ends the hand.

Below it are the seats of its table, and the draw of an action from a policy's probabilities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, cast

import numpy as np

from mage_envs.core import (
    BY_FORFEIT,
    BY_TIMEOUT,
    Game,
    HandResult,
    IllegalAction,
    Policy,
    State,
    Turn,
    is_state_policy,
)
from mage_envs.drawing.picture import Picture
from mage_envs.exceptions import message_of, reason_of, stops
from mage_envs.games.table_game import TableGame
from mage_envs.loading.defaults import fill_in, overrides
from mage_envs.random.streams import GAME, SEATS, Streams
from mage_envs.text.parser import INVALID

END_NOTICES = {
    BY_TIMEOUT: "You ran out of turns: the episode is over and not won.",
    BY_FORFEIT: "Your answer was not a legal action: you forfeit the hand.",
}
"""Observation after a stopped hand, by the reason."""
_NO_STATE = cast(State, None)
"""`Hand.state` between two hands."""


class OpponentFailure(RuntimeError):
    """Failure of a policy, which raised an exception or returned an illegal action. The cause is chained."""

    def __init__(self, message: str, seat: int = 0) -> None:
        super().__init__(message)
        self.seat = seat
        """Seat of the policy, counted from the game's first player."""


class TruncatedState(State):
    """The end of a hand that the game's rules did not end; `at` is its last state."""

    player, legal_actions = None, ()

    def __init__(self, at: State, ended_by: str, returns: tuple[float, ...]) -> None:
        self.at, self.ended_by = at, ended_by
        self.returns: tuple[float, ...] = returns
        self.task_id, self.category = at.task_id, at.category

    def observation(self, seat: int) -> str:
        return END_NOTICES[self.ended_by]

    def information_state(self, seat: int) -> str:
        return self.at.information_state(seat)

    def after(self, action: str) -> State:
        raise IllegalAction(action, ())

    def result(self, seat: int) -> HandResult:
        """Return the result, without an information state because the hand did not reach an end of the game."""
        notice, last_observation = self.observation(seat), self.at.observation(seat)
        return HandResult(self.returns[seat], seat, self.ended_by, observation=notice, last_state=last_observation)

    def metrics(self) -> Mapping[str, float]:
        return self.at.metrics()

    def picture(self, seat: int) -> Picture:
        return self.at.picture(seat)


class Hand:
    """The current hand of a game; `deal` starts the next one.

    Each seat of the table holds a policy or is open. The caller answers for an open seat.
    """

    state: State
    """Current state; a `TruncatedState` if the hand ended, but not by the rules."""

    def __init__(
        self,
        game: Game,
        *,
        max_turns: int | None = None,
        forfeits: bool = False,
        timeout_value: float | None = None,
        hands_per_episode: int = 1,
    ) -> None:
        """Create a player of hands.

        Args:
            max_turns: Answers of the open seats before the hand times out (default: that of the hand, or the game's).
            forfeits: True if an illegal answer loses the hand.
            timeout_value: Each player's return after a timeout, unless the game pays on the way (default: the worst).
            hands_per_episode: Number of hands per episode, which numbers the tasks of a series.
        """
        self.game = game
        self._hands_per_episode = hands_per_episode
        self._limit, self.max_turns = max_turns, max_turns or game.spec.max_turns
        self.forfeits = forfeits
        self.timeout_value = game.spec.min_return if timeout_value is None else timeout_value
        self.over = True
        self.turns = 0
        """Number of answers in this hand."""
        self.played: str | None = None
        """The last answer in the game's spelling; None if it was illegal."""
        self._table = open_table(0)
        self._seats = self._table.seats
        self._number = 0
        self._drawn: dict[int, int] = {}
        """Count of numbers drawn from each seat's stream in this hand, by seat."""
        self._keeps_history = game.spec.perfect_information
        self.moves: list[str] = []
        """All moves so far, including those of chance, in games of perfect information."""
        self._table_game = game if isinstance(game, TableGame) else None
        self.begin_episode(Streams(0))

    def on_meta_episode_start(self, table: Table) -> None:
        """Make the policies forget earlier hands. `table` is the table of the first hand."""
        for index, seat in table.policies:
            try:
                seat.on_meta_episode_start()
            except BaseException as error:
                self._fail(seat, index, error)

    def begin_episode(
        self,
        chance: Streams,
        draws: Streams | None = None,
        *,
        episode: int = 0,
        deal_episode: int | None = None,
        task_id: str | None = None,
    ) -> None:
        """Set the randomness and the task of the following hands.

        Args:
            chance: Streams of the game. It draws hand n from `chance.at(GAME, deal_episode, n)`.
            draws: Streams of the policies (default: `chance`). Seat s uses `draws.at(SEATS + s, episode, n)`.
            episode: Index of the episode in its meta-episode.
            deal_episode: Index of the episode whose deals are dealt (default: `episode`).
            task_id: Id of the task to play (default: drawn by the game).
        """
        self._chance, self._draws = chance, chance if draws is None else draws
        self.episode, self._dealt = episode, episode if deal_episode is None else deal_episode
        self._task_id = task_id
        # Shared first states are dealt with one number of a stream, without the cost of a NumPy Generator.
        self._shared = self._table_game if task_id is None and not self.game.spec.series else None

    def deal(self, table: Table, number: int = 0) -> None:
        """Start hand `number` of the episode. Policies move until an open seat must answer or the hand is over."""
        self._table, self._seats, self._number = table, table.seats, number
        self.over, self.turns, self.played = False, 0, None
        # No local variable may hold a state: an error that an engine's parser keeps also keeps this frame's locals.
        if self._shared is not None:
            self.state = self._shared.first_state(self._chance, GAME, self._dealt, number)
        else:
            # Drop our reference first: ALFWorld reuses its engine only after the last state is garbage-collected.
            self.state = _NO_STATE
            self.state = self._first_state(number)
            self.max_turns = self._limit or self.state.max_turns or self.game.spec.max_turns
        if self._keeps_history:
            self.moves = [*self.state.chance_events]
        self._drawn = {}
        for index, seat in table.asked:
            self._reset(seat, index)
        self.play()

    def _first_state(self, number: int) -> State:
        """Return the first state of hand `number`, from a generator of its own."""
        game, task_id = self.game, self._task_id
        if task_id is None and game.spec.series:
            # All tasks of a meta-episode come from one stream. Streams of their own could draw the same task twice.
            return game.series_state(self._chance.at(GAME).generator(), self._dealt * self._hands_per_episode + number)
        rng = self._chance.at(GAME, self._dealt, number).generator()
        return game.initial_state(rng) if task_id is None else game.task_state(task_id, rng)

    def _reset(self, seat: Seat, index: int) -> None:
        """Reset a policy whose `act` is called in this hand."""
        try:
            seat.reset(self._draws.at(SEATS + index, self.episode, self._number).generator())
        except BaseException as error:
            self._fail(seat, index, error)

    def draw(self, seat: int) -> float:
        """Return the next uniform number of the seat's stream in this hand."""
        index = self._drawn.get(seat, 0)
        self._drawn[seat] = index + 1
        return self._draws.number(SEATS + seat, self.episode, self._number, index)

    def turn(self, seat: int) -> Turn:
        """Return the player's current `Turn`. It has legal actions only if the player must move."""
        state = self.state
        return Turn(
            player=seat,
            observation=state.observation(seat),
            legal_actions=state.legal_actions if state.player == seat else (),
            information_state=state.information_state(seat),
            episode=self.episode,
            history=tuple(self.moves),
            task_id=state.task_id,
        )

    def play(self, action: str | None = None) -> None:
        """Play an open seat's move, if given, then policies' moves until an open seat must answer.

        When the hand ends, call `on_hand_end` of every policy that implements it. Raises `IllegalAction` with nothing
        changed.
        """
        state = self.state
        while (player := state.player) is not None:
            seat = self._seats[player]
            if seat is not None:
                try:
                    move, state = seat.move(state, player, self)
                except BaseException as error:
                    self._fail(seat, player, error)
            elif action is not None:
                move, state = state.move(action)
                # The action is used up: the next open seat needs an answer of its own.
                self.played, action = move, None
            else:
                return
            self.state = state
            if self._keeps_history:
                self.moves.append(move)
                if state.chance_events:
                    self.moves += state.chance_events
        self.over = True
        for index, seat in self._table.watching:
            try:
                seat.on_hand_end(self.turn(index)._replace(success=self.state.won(index)))
            except BaseException as error:
                self._fail(seat, index, error)

    def answer(self, action: str) -> str | None:
        """Play an open seat's answer and count it. Returns None, or the reason if the answer is invalid."""
        # Illegal answers count too. Otherwise a model that never answers legally would play forever.
        self.turns += 1
        try:
            self.play(action)
        except IllegalAction:
            self.played, self.state = None, self.state.after_illegal()
            if self.forfeits:
                self._stop(BY_FORFEIT)
            elif self.turns >= self.max_turns:
                self._stop(BY_TIMEOUT)
            return INVALID
        if self.turns >= self.max_turns and not self.over:
            self._stop(BY_TIMEOUT)
        return None

    def time_out(self) -> None:
        """End the hand in its current state, as a timeout."""
        self._stop(BY_TIMEOUT)

    def _stop(self, by: str) -> None:
        """End the hand before the rules do.

        A timeout pays `timeout_value`, or the returns so far if the game pays on the way. A forfeit pays the mover the
        worst return, and the others 0.
        """
        state, spec = self.state, self.game.spec
        returns = (self.timeout_value,) * spec.players
        if by == BY_FORFEIT:
            returns = tuple(spec.min_return if seat == state.player else 0.0 for seat in range(spec.players))
        elif spec.has_intermediate_rewards:
            returns = state.returns
        self.over, self.state = True, TruncatedState(state, by, returns)

    def _fail(self, seat: Seat, index: int, error: BaseException) -> NoReturn:
        """Raise OpponentFailure for an exception of that seat's policy; raise the exception again if it `stops`."""
        if stops(error):
            raise error
        reason = message_of(error)
        # The message of a SystemExit is only a status, such as "1", and does not show that the policy called exit().
        if isinstance(error, SystemExit):
            reason = f"it ended its program: SystemExit({reason})"
        elif not isinstance(error, Exception):
            reason = reason_of(error)
        raise OpponentFailure(f"Opponent {seat.name!r} failed in {self.game.spec.name}: {reason}", index) from error


# -- seats -----------------------------------------------------------------------------------------------------
# A seat calls its policy for each move, or uses cached replies if they may be tabulated.

Said = tuple[str, State]
"""A move: the action in its canonical spelling, and the state after it."""
Reply = tuple[tuple[tuple[float, Said], ...], Said]
"""Moves with rising thresholds, ((threshold, move), ...), and the move above the last threshold."""


class Seat:
    """One policy at the table, with a cache of its replies if it follows the information state."""

    def __init__(self, policy: Policy, name: str, table: dict[State, Reply] | None = None) -> None:
        """Create a seat.

        Args:
            policy: Policy that plays the seat.
            name: Name of the policy in `info` and in errors.
            table: Cache of replies, for games whose states are shared. Ignored if the policy may not be tabulated.
        """
        self.policy: Policy = fill_in(policy, Policy)
        self.name = name
        self.sees_results = overrides(policy, Policy, "on_hand_end")
        """True if the policy implements `on_hand_end`."""
        self._table = table if is_state_policy(policy) else None
        self.is_asked = self._table is None
        """True if `act` is called for each move, so that the policy must be reset at each hand."""

    def on_meta_episode_start(self) -> None:
        """Make the policy forget earlier hands."""
        self.policy.on_meta_episode_start()

    def reset(self, rng: np.random.Generator) -> None:
        """Start a hand for the policy."""
        self.policy.reset(rng)

    def on_hand_end(self, turn: Turn) -> None:
        """Pass the end of a hand to the policy."""
        self.policy.on_hand_end(turn)

    def move(self, state: State, index: int, hand: Hand) -> Said:
        """Return the policy's move. Raises any exception of the policy or of the rules.

        Args:
            state: State in which this seat is to move.
            hand: Hand that provides the `Turn` and the random numbers.
        """
        if self._table is None:
            return state.move(self.policy.act(hand.turn(index)))
        cuts, last_move = self._table.get(state) or self._learn(state, hand.turn(index), self._table)
        # If one action is certain, no number is drawn, as `Policy` promises.
        if cuts:
            draw = hand.draw(index)
            for threshold, move in cuts:
                if draw < threshold:
                    return move
        return last_move

    def _learn(self, state: State, turn: Turn, table: dict[State, Reply]) -> Reply:
        """Compute the replies in a state and add them to the cache."""
        row = self.policy.distribution(turn)
        cuts, last_action = cuts_of(turn.information_state, row, turn.legal_actions)
        moves = tuple((threshold, (action, state.after(action))) for threshold, action in cuts)
        table[state] = reply = (moves, (last_action, state.after(last_action)))
        return reply

    def __getstate__(self) -> dict[str, Any]:
        """Return all attributes without the cached replies, which a copy computes again."""
        return {**self.__dict__, "_table": None if self._table is None else {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # In another process, the class of the policy does not have the defaults yet.
        self.__dict__.update(state)
        fill_in(self.policy, Policy)


class Table:
    """The seats of a hand, in order. None is an open seat: the caller answers for it."""

    def __init__(self, seats: Iterable[Seat | None]) -> None:
        self.seats = tuple(seats)
        self.policies = [(index, seat) for index, seat in enumerate(self.seats) if seat is not None]
        """(index, seat) of the seats with a policy."""
        self.asked = [(index, seat) for index, seat in self.policies if seat.is_asked]
        """(index, seat) of the policies to reset at each hand."""
        self.watching = [(index, seat) for index, seat in self.policies if seat.sees_results]
        """(index, seat) of the policies that implement `on_hand_end`, the only ones for which a `Turn` is made."""


def open_table(players: int) -> Table:
    """Return a table whose seats are all open."""
    return Table((None,) * players)


# -- probabilities ---------------------------------------------------------------------------------------------
# The only way to draw an action: a uniform number compared with rising thresholds.

Cuts = tuple[tuple[tuple[float, str], ...], str]
"""Actions with rising thresholds, ((threshold, action), ...), and the action above the last threshold."""
_TOLERANCE = 1e-9


def check_row(state: str, row: Mapping[str, float]) -> None:
    """Raise `ValueError` unless `row` is a probability distribution."""
    # `not ... <=` and not `>`, so that a sum of NaN is refused too.
    if any(probability < 0 for probability in row.values()) or not abs(sum(row.values()) - 1) <= _TOLERANCE:
        raise ValueError(f"Probabilities at {state!r} must be at least 0 and sum to 1, got {dict(row)}.")


def cuts_of(state: str, row: Mapping[str, float], legal_actions: Sequence[str]) -> Cuts:
    """Return the thresholds of a distribution.

    Args:
        state: Information state, for errors.
        row: Probability of each action; missing actions have 0.
        legal_actions: Legal actions, in the order of the thresholds.

    Raises:
        ValueError: If an illegal action is possible, or if `row` is not a probability distribution.
    """
    if unknown := [action for action, chance in row.items() if chance > 0 and action not in legal_actions]:
        raise ValueError(f"{unknown[0]!r} at {state!r} is not legal; choose one of: {', '.join(legal_actions)}.")
    check_row(state, row)
    possible = [action for action in legal_actions if row.get(action, 0.0) > 0]
    # The last action has no threshold: rounding errors of the sum must not leave a number without an action.
    cuts, total = [], 0.0
    for action in possible[:-1]:
        total += row[action]
        cuts.append((total, action))
    return tuple(cuts), possible[-1]


def pick(cuts: Cuts, draw: float) -> str:
    """Return the action for a uniform number in [0, 1)."""
    thresholds, last_action = cuts
    for threshold, action in thresholds:
        if draw < threshold:
            return action
    return last_action
