"""Promises: a division game in which both players first say what they will do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from mage_envs.core import GameSpec
from mage_envs.game_record import GameRecord
from mage_envs.games.rounds import together
from mage_envs.games.table_game import GrownState, Origin, TableGame
from mage_envs.loading.options import check_choice, check_positive
from mage_envs.settings import PAID_BY_RETURN, GameSettings
from mage_envs.text.words.spelling import move_word

SEATS = ("first", "second", "third")
SHARE, GRAB = "share", "grab"
SAY_SHARE, SAY_GRAB, SAY_NOTHING = "say share", "say grab", "say nothing"
SENTENCES = {SAY_SHARE: '"I will share"', SAY_GRAB: '"I will grab"', SAY_NOTHING: "nothing"}
"""Action of a speaker to its words."""
CLAIMS = (SHARE, GRAB)


class PromiseTerms(NamedTuple):
    """Options of a game."""

    players: int
    rounds: int
    payoffs: tuple[float, float, float, float]
    """Points of a player if both share, it shares alone, it grabs alone, and both grab."""
    heard: bool

    def points(self, claims: Sequence[str], seat: int) -> float:
        """Return the points of a player in a round, as the mean over the other players."""
        own = 2 * (claims[seat] == GRAB)
        others = [claim for other, claim in enumerate(claims) if other != seat]
        return sum(self.payoffs[own + (claim == GRAB)] for claim in others) / len(others)


class PromisesState(GrownState):
    """A point of a hand. In each round all players speak in turn, and then all claim in turn.

    An information state is the seat and all moves that its player knows: `first say-nothing opp-say-share grab`.
    """

    def __init__(self, terms: PromiseTerms, moves: tuple[str, ...], origin: Origin) -> None:
        self.terms, self.said = terms, moves
        players, length = terms.players, 2 * terms.players
        rounds = [moves[start : start + length] for start in range(0, len(moves), length)]
        self.sentences = [part[:players] for part in rounds]
        """Sentences of each round so far, in the order of the seats."""
        self.claims = [part[players:] for part in rounds]
        """Claims of each round so far, in the order of the seats."""
        finished = [claims for claims in self.claims if len(claims) == players]
        self.totals = tuple(sum(terms.points(claims, seat) for claims in finished) for seat in range(players))
        """Points of each player in the finished rounds."""
        over = len(finished) == terms.rounds
        self.speaks = len(moves) % length < players
        """True if the player to move speaks, False if it claims."""
        legal = tuple(SENTENCES) if self.speaks else CLAIMS
        super().__init__(
            None if over else len(moves) % players,
            tuple(total / terms.rounds for total in self.totals) if over else (0.0,) * players,
            keys=tuple(self._key(seat) for seat in range(players)),
            legal_actions=() if over else legal,
            origin=origin,
        )

    def follower(self, action: str) -> PromisesState:
        return PromisesState(self.terms, (*self.said, action), self.origin.then(action))

    def won(self, seat: int) -> bool:
        # Returns are quotients, so equality can fail by a rounding error.
        return self.returns[seat] >= self.terms.payoffs[0] - 1e-9

    def _knows(self, seat: int, number: int) -> bool:
        """Return True if a player knows a move, which has an index among all moves."""
        players = self.terms.players
        if number % players == seat:
            return True
        if number % (2 * players) < players:
            return self.terms.heard or seat > 0
        # A claim is open until all players have claimed.
        return len(self.said) // (2 * players) > number // (2 * players)

    def _key(self, seat: int) -> str:
        players, words = self.terms.players, [SEATS[seat]]
        for number, action in enumerate(self.said):
            if self._knows(seat, number):
                other = (number - seat) % players
                word = move_word(action, is_own=other == 0)
                # With several other players, the prefix says which one: opp1- is the next one in the order of play.
                words.append(word.replace("opp-", f"opp{other}-") if players > 2 else word)
        return " ".join(words)

    def tell(self, seat: int) -> str:
        lines = [self._line(number, seat) for number in range(len(self.sentences))]
        if self.player is None:
            points = [f"{together([self.totals[seat]], 'point')} for you"]
            points += [f"{self.totals[other]:g} for {self._name(other)}" for other in self._others(seat)]
            return "\n".join([*lines, f"The hand is over: {', '.join(points)}."])
        if len(self.said) % (2 * self.terms.players) == 0:
            lines.append(f"Round {len(lines) + 1} of {self.terms.rounds}:")
        if self.player != seat:
            verb = "speak" if self.speaks else "choose"
            question = f"{self._name(self.player).capitalize()} is yet to {verb}."
        elif self.speaks:
            question = "What do you say?"
        else:
            others = "The other player chooses" if self.terms.players == 2 else "The other players choose"
            question = f"{others} at the same time. Share or grab?"
        lines[-1] += f" {question}"
        return "\n".join(lines)

    def _others(self, seat: int) -> list[int]:
        return [other for other in range(self.terms.players) if other != seat]

    def _name(self, seat: int) -> str:
        """Return how other players call a player."""
        return "the other player" if self.terms.players == 2 else f"the {SEATS[seat]} player"

    def _line(self, number: int, seat: int) -> str:
        """Return what a player knows of a round."""
        start = 2 * self.terms.players * number
        sentences = [
            f"{'you say' if speaker == seat else f'{self._name(speaker)} says'} {SENTENCES[sentence]}"
            for speaker, sentence in enumerate(self.sentences[number])
            if self._knows(seat, start + speaker)
        ]
        line = f"Round {number + 1} of {self.terms.rounds}:"
        if sentences:
            line += f" {', '.join(sentences)}."
        claims = self.claims[number]
        if len(claims) == self.terms.players:
            acts = [f"You {claims[seat]}"]
            acts += [f"{self._name(other)} {claims[other]}s" for other in self._others(seat)]
            points = [f"{together([self.terms.points(claims, seat)], 'point')} for you"]
            points += [f"{self.terms.points(claims, other):g} for {self._name(other)}" for other in self._others(seat)]
            line += f" {', '.join(acts)}: {', '.join(points)}."
        elif len(claims) > seat:
            line += f" You {claims[seat]}."
        return line


@cache
def first_state(terms: PromiseTerms) -> PromisesState:
    """Return the shared first state of hands with these options."""
    return PromisesState(terms, (), Origin(first_state, (terms,)))


NEUTRAL = {
    "Promises": "Game",
    "say": "show",
    "says": "shows",
    "said": "shown",
    "speak": "show",
    "speaks": "shows",
    "share": "go left",
    "shares": "goes left",
    "shared": "went left",
    "grab": "go right",
    "grabs": "goes right",
    "claim": "go",
    "claims": "goes",
}
"""Words for the style `neutral`."""


def _facts(terms: PromiseTerms) -> GameSpec:
    both, alone, grabs, none = (f"{points:g}" for points in terms.payoffs)
    hears = "" if terms.heard else "The first player does not hear the others. "
    pays = f"if both share, each gets {both} points; if one grabs alone, that one gets {grabs} and the other {alone}; "
    pays += f"if both grab, each gets {none}"
    if terms.players > 2:
        pays = f"every two players are paid by their claims, and points are the mean over the other players: {pays}"
    return GameSpec(
        name="Promises",
        players=terms.players,
        rules=(
            f"Promises, {terms.rounds} round{'s' * (terms.rounds != 1)}. In each round one player after the other, the "
            "first player first, says that it will share, that it will grab, or nothing. No promise is binding. "
            f"{hears}Then all share or grab at the same time; {pays}. After each round all see what was chosen. Get as "
            "many points as you can; how many others get does not matter."
        ),
        unit="points per round",
        general_sum=True,
        min_return=float(min(terms.payoffs)),
        max_return=float(max(terms.payoffs)),
        # A hand needs two actions per round. An illegal action also uses a turn, so the limit is twice that.
        max_turns=4 * terms.rounds,
        actions=(*SENTENCES, *CLAIMS),
        neutral=NEUTRAL,
    )


class Promises(TableGame):
    """Talk and trust: before each of two rounds both players say what they will do, and may lie.

    Rules: in each of 2 rounds the first player says that it will share, that it will grab, or nothing, and then the
    second player says one of these. Then both choose at the same time to share or to grab. If both share, each gets 2
    points. If one grabs alone, it gets 3 and the other gets 1. If both grab, both get nothing. After a round both
    players see its choices. So it is best to grab if the other shares, and to share if the other grabs.

    Actions: `say share`, `say grab`, `say nothing`, and then `share` or `grab`.

    Observation: what was said and chosen. The learner plays the first seat by default.

    Returns: the mean points per round.

    Success: at least as much as if both share.

    Versions: v0.

    Args:
        rounds: Rounds in a hand (default: 2, at most 4).
        players: Number of players (default: 2), 2 or 3. A claim counts against each other player, and points are means.
        payoffs: Points of a player if both share, it shares alone, it grabs alone, and both grab (default: 2, 1, 3, 0).
            With 3, 0, 5, 1 the choices are those of a prisoner's dilemma.
        heard: False if the first player does not hear what others say (default: true). The difference of the values is
            what listening is worth.

    Raises:
        ValueError: If an option is out of range.
    """

    spec = _facts(PromiseTerms(players=2, rounds=2, payoffs=(2, 1, 3, 0), heard=True))

    def __init__(
        self, rounds: int = 2, players: int = 2, payoffs: Sequence[float] = (2, 1, 3, 0), heard: bool = True
    ) -> None:
        check_positive("rounds", rounds, 4)
        check_choice("players", players, (2, 3))
        check_choice("heard", heard, (True, False))
        if len(payoffs) != 4:
            raise ValueError(f"payoffs={payoffs!r} must be four numbers, as in (2, 1, 3, 0).")
        both, alone, grabs, none = payoffs
        terms = PromiseTerms(players, rounds, (both, alone, grabs, none), heard)
        self.spec = _facts(terms)
        super().__init__([(1.0, first_state(terms))])


SETTINGS = GameSettings(opponent="pool:promises/speakers", seat="first", rewards=PAID_BY_RETURN)

RECORD = GameRecord(
    name="Promises",
    entry_point=f"{__name__}:Promises",
    settings=SETTINGS,
    opponents={"promises": "mage_envs.opponents.learning.promises"},
)
