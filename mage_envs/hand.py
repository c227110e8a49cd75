"""`Hand`: the only place where a hand is played. It deals, takes answers, lets policies move, ends and times out."""

from __future__ import annotations

from typing import cast

from mage_envs.core import BY_FORFEIT, BY_THE_RULES, BY_TIMEOUT, Game, HandResult, IllegalAction, State, Turn
from mage_envs.games.table import TableGame
from mage_envs.randomness import GAME, SEATS, Streams
from mage_envs.seats import Seat, Table, open_table
from mage_envs.text.parser import INVALID

TIMED_OUT = "You ran out of turns: the episode is over and not won."
FORFEITED = "Your answer was not a legal action: you forfeit the hand."
_NO_STATE = cast(State, None)
"""Between two hands."""


class OpponentFailure(RuntimeError):
    """A policy at the table raised, or answered with an illegal action; the cause is chained."""

    def __init__(self, message: str, seat: int = 0) -> None:
        super().__init__(message)
        self.seat = seat
        """Where it sits, counted from the game's first player."""


class Hand:
    """The hand that is being played; `deal` starts the next one.

    Each seat of the table holds a policy, or is open: then whoever drives the hand answers for it.
    """

    state: State
    """Where the hand is."""

    def __init__(
        self, game: Game, *, max_turns: int | None = None, forfeits: bool = False, timeout_value: float = 0.0
    ) -> None:
        """`max_turns`: answers of the open seats before the hand times out; `forfeits`: an illegal answer loses it."""
        self.game = game
        self.max_turns = game.facts.max_turns if max_turns is None else max_turns
        self.forfeits = forfeits
        self.timeout_value = timeout_value
        self.over = True
        self.ended_by = BY_THE_RULES
        self.turns = 0
        """Answers given in this hand."""
        self.played: str | None = None
        """The last answer as the game spells it; None where it was illegal."""
        self._table = open_table(0)
        self._seats = self._table.seats
        self._results: tuple[dict[State, HandResult], ...] = tuple({} for _ in range(game.facts.players))
        """By seat: of final states that are shared."""
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
            except (Exception, SystemExit) as error:
                raise self._failure(seat, place, error) from error

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
        self.over, self.ended_by = False, BY_THE_RULES
        self.turns, self.played = 0, None
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
        except (Exception, SystemExit) as error:
            raise self._failure(seat, place, error) from error

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
                except (Exception, SystemExit) as error:
                    raise self._failure(seat, player, error) from error
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
            except (Exception, SystemExit) as error:
                raise self._failure(seat, place, error) from error

    def answer(self, action: str) -> str | None:
        """Takes an open seat's answer, legal or not, and counts it; returns None, or why it is invalid."""
        self.turns += 1
        try:
            self.play(action)
        except IllegalAction:
            self.played = None
            if self.forfeits:
                self.over, self.ended_by = True, BY_FORFEIT
            elif self.turns >= self.max_turns:
                self.time_out()
            return INVALID
        if self.turns >= self.max_turns and not self.over:
            self.time_out()
        return None

    def time_out(self) -> None:
        """Ends the hand where it is."""
        self.over, self.ended_by = True, BY_TIMEOUT

    def observation(self, seat: int) -> str:
        """What that player sees now."""
        if self.over and self.ended_by != BY_THE_RULES:
            return TIMED_OUT if self.ended_by == BY_TIMEOUT else FORFEITED
        return self.state.observation(seat)

    def result(self, seat: int) -> HandResult:
        """How the hand that is over ended for that player."""
        state, by = self.state, self.ended_by
        if by == BY_THE_RULES:
            known = self._results[seat].get(state)
            if known is not None:
                return known
            result = HandResult(
                value=state.returns[seat],
                seat=seat,
                ended_by=by,
                success=state.won(seat),
                observation=state.observation(seat),
                information_state=state.information_state(seat),
            )
            if self._table_game is not None:  # its states are shared and few
                self._results[seat][state] = result
            return result
        value = self.game.facts.min_return if by == BY_FORFEIT else self._stopped_value(seat)
        return HandResult(value=value, seat=seat, ended_by=by, observation=self.observation(seat))

    def _stopped_value(self, seat: int) -> float:
        return self.state.returns[seat] if self.game.facts.pays_on_the_way else self.timeout_value

    def _failure(self, seat: Seat, place: int, error: Exception | SystemExit) -> OpponentFailure:
        """What is raised in place of `error`, which that seat's policy raised."""
        told = f"it ended its program: SystemExit({error})" if isinstance(error, SystemExit) else str(error)
        return OpponentFailure(f"Opponent {seat.name!r} failed in {self.game.facts.name}: {told}", place)
