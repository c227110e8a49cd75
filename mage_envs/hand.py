"""`Hand`: the only place where a hand is played. It deals, takes answers, lets policies move, ends and times out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn, cast

from mage_envs.core import BY_FORFEIT, BY_TIMEOUT, Game, HandResult, IllegalAction, State, Turn
from mage_envs.drawing.picture import Picture
from mage_envs.exceptions import message_of, reason_of, stops
from mage_envs.games.table import TableGame
from mage_envs.randomness import GAME, SEATS, Streams
from mage_envs.seats import Seat, Table, open_table
from mage_envs.text.parser import INVALID

TOLD = {
    BY_TIMEOUT: "You ran out of turns: the episode is over and not won.",
    BY_FORFEIT: "Your answer was not a legal action: you forfeit the hand.",
}
"""What a player sees of a hand that was stopped."""
_NO_STATE = cast(State, None)
"""Between two hands."""


class OpponentFailure(RuntimeError):
    """A policy at the table raised, or answered with an illegal action; the cause is chained."""

    def __init__(self, message: str, seat: int = 0) -> None:
        super().__init__(message)
        self.seat = seat
        """Where it sits, counted from the game's first player."""


class Stopped(State):
    """A hand that is over, though not by the game's rules: in the middle of `at`."""

    player = None
    legal_actions = ()

    def __init__(self, at: State, ended_by: str, returns: tuple[float, ...]) -> None:
        self.at, self.ended_by = at, ended_by
        self.returns: tuple[float, ...] = returns
        self.task, self.category = at.task, at.category

    def observation(self, seat: int) -> str:
        return TOLD[self.ended_by]

    def information_state(self, seat: int) -> str:
        return self.at.information_state(seat)

    def after(self, action: str) -> State:
        raise IllegalAction(action, ())

    def result(self, seat: int) -> HandResult:
        """Nothing is known at an end that was not reached, so that it has no information state."""
        return HandResult(self.returns[seat], seat, self.ended_by, observation=self.observation(seat))

    def metrics(self) -> Mapping[str, float]:
        return self.at.metrics()

    def picture(self, seat: int) -> Picture:
        return self.at.picture(seat)


class Hand:
    """The hand that is being played; `deal` starts the next one.

    Each seat of the table holds a policy, or is open: then whoever drives the hand answers for it.
    """

    state: State
    """Where the hand is; `Stopped` where the rules did not end it."""

    def __init__(
        self, game: Game, *, max_turns: int | None = None, forfeits: bool = False, timeout_value: float = 0.0
    ) -> None:
        """`max_turns`: answers of the open seats before the hand times out; `forfeits`: an illegal answer loses it."""
        self.game = game
        self.max_turns = game.facts.max_turns if max_turns is None else max_turns
        self.forfeits = forfeits
        self.timeout_value = timeout_value
        self.over = True
        self.turns = 0
        """Answers given in this hand."""
        self.played: str | None = None
        """The last answer as the game spells it; None where it was illegal."""
        self._table = open_table(0)
        self._seats = self._table.seats
        self._number = 0
        self._drawn: dict[int, int] = {}
        """By seat: how many numbers of its stream were drawn in this hand."""
        self._keeps_history = game.facts.perfect_information
        self.moves: list[str] = []
        """All moves so far, chance's too, in games of perfect information."""
        self._table_game = game if isinstance(game, TableGame) else None
        self.begin_episode(Streams(0))

    def begin_meta_episode(self, table: Table) -> None:
        """Tells the policies that remember to forget; they sit as in the first hand to be dealt."""
        for place, seat in table.remembering:
            try:
                seat.begin_meta_episode()
            except BaseException as error:
                self._fail(seat, place, error)

    def begin_episode(
        self,
        chance: Streams,
        draws: Streams | None = None,
        *,
        episode: int = 0,
        deal_episode: int | None = None,
        task: str | None = None,
    ) -> None:
        """Says what the hands that are dealt from now on are made of.

        The game draws for hand n from `chance.at(GAME, deal_episode, n)`, by default of the same episode; the policy
        in seat s from `draws.at(SEATS + s, episode, n)`, by default of the same seed.
        """
        self._chance, self._draws = chance, chance if draws is None else draws
        self.episode, self._dealt = episode, episode if deal_episode is None else deal_episode
        self._task = task
        self._shared = self._table_game if task is None else None

    def deal(self, table: Table, number: int = 0) -> None:
        """Starts hand `number` of the episode; policies move until an open seat is to, or the hand is over."""
        self._table, self._seats, self._number = table, table.seats, number
        self.over, self.turns, self.played = False, 0, None
        # No name here may hold a state: errors that an engine's parser keeps hold this frame, and so all its names.
        if self._shared is not None:
            self.state = self._shared.first_state(self._chance, GAME, self._dealt, number)
        else:
            self.state = _NO_STATE  # what an engine holds serves the next hand only once nobody holds the last
            rng, task = self._chance.at(GAME, self._dealt, number).generator(), self._task
            self.state = self.game.initial_state(rng) if task is None else self.game.task_state(task, rng)
        if self._keeps_history:
            self.moves = [*self.state.happened]
        self._drawn = {}
        for place, seat in table.asked:
            self._reset(seat, place)
        self.play()

    def _reset(self, seat: Seat, place: int) -> None:
        """Starts the hand for a policy that is asked for its moves."""
        try:
            seat.reset(self._draws.at(SEATS + place, self.episode, self._number).generator())
        except BaseException as error:
            self._fail(seat, place, error)

    def draw(self, seat: int) -> float:
        """The next uniform number of that seat's stream in this hand."""
        index = self._drawn.get(seat, 0)
        self._drawn[seat] = index + 1
        return self._draws.number(SEATS + seat, self.episode, self._number, index)

    def turn(self, seat: int) -> Turn:
        """What that player knows now; it has legal actions only if it is to move."""
        state = self.state
        return Turn(
            player=seat,
            observation=state.observation(seat),
            legal_actions=state.legal_actions if state.player == seat else (),
            information_state=state.information_state(seat),
            episode=self.episode,
            history=tuple(self.moves),
            task=state.task,
        )

    def play(self, action: str | None = None) -> None:
        """Plays an open seat's move, where one is given, and the policies' moves until an open seat is to, or the hand
        is over, which is then told to who hears of it. Raises `IllegalAction` with nothing changed."""
        state = self.state
        while (player := state.player) is not None:
            seat = self._seats[player]
            if seat is not None:
                try:
                    said, state = seat.move(state, player, self)
                except BaseException as error:
                    self._fail(seat, player, error)
            elif action is not None:
                said, state = state.move(action)
                self.played, action = said, None
            else:
                return
            self.state = state
            if self._keeps_history:
                self.moves.append(said)
                if state.happened:
                    self.moves += state.happened
        self.over = True
        for place, seat in self._table.watching:
            try:
                seat.see_result(self.turn(place)._replace(success=self.state.won(place)))
            except BaseException as error:
                self._fail(seat, place, error)

    def answer(self, action: str) -> str | None:
        """Takes an open seat's answer, legal or not, and counts it; returns None, or why it is invalid."""
        self.turns += 1
        try:
            self.play(action)
        except IllegalAction:
            self.played = None
            if self.forfeits:
                self._stop(BY_FORFEIT)
            elif self.turns >= self.max_turns:
                self._stop(BY_TIMEOUT)
            return INVALID
        if self.turns >= self.max_turns and not self.over:
            self._stop(BY_TIMEOUT)
        return None

    def time_out(self) -> None:
        """Ends the hand where it is."""
        self._stop(BY_TIMEOUT)

    def _stop(self, by: str) -> None:
        """A timeout is worth what was earned on the way, or `timeout_value`; who forfeits gets the worst return."""
        state, facts = self.state, self.game.facts
        returns = (self.timeout_value,) * facts.players
        if by == BY_FORFEIT:
            returns = tuple(facts.min_return if seat == state.player else 0.0 for seat in range(facts.players))
        elif facts.pays_on_the_way:
            returns = state.returns
        self.over, self.state = True, Stopped(state, by, returns)

    def _fail(self, seat: Seat, place: int, error: BaseException) -> NoReturn:
        """Raise OpponentFailure for an exception of that seat's policy; raise the exception again if it `stops`."""
        if stops(error):
            raise error
        reason = message_of(error)
        if isinstance(error, SystemExit):
            reason = f"it ended its program: SystemExit({reason})"
        elif not isinstance(error, Exception):
            reason = reason_of(error)
        raise OpponentFailure(f"Opponent {seat.name!r} failed in {self.game.facts.name}: {reason}", place) from error
