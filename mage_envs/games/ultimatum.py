"""The ultimatum game, with a responder whose price is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from mage_envs.core import GameSpec
from mage_envs.drawing import Picture
from mage_envs.game_record import GameRecord
from mage_envs.games.table_game import GrownState, Origin, TableGame
from mage_envs.loading.options import check_positive
from mage_envs.settings import PAID_BY_RETURN, GameSettings

ACCEPT, REFUSE = "accept", "refuse"
_LARGEST = 100
"""Maximum slices, because an offer of each number is an action."""


def offer(slices: int) -> str:
    """Return the action that offers this number of slices."""
    return f"offer {slices}"


def slices_of(action: str) -> int:
    """Return the number of slices in an offer."""
    return int(action.removeprefix("offer "))


class UltimatumState(GrownState):
    """A point of a hand. An information state lists the offers and answers so far: `offer-3 accept offer-2`."""

    def __init__(self, pie: int, offers: int, moves: tuple[str, ...], origin: Origin) -> None:
        self.pie, self.offers, self.said = pie, offers, moves
        offered_slices = [slices_of(action) for action in moves[::2]]
        answers = moves[1::2]
        # Not strict: an offer without an answer has no share yet.
        self.shares = tuple(
            slices if answer == ACCEPT else None for slices, answer in zip(offered_slices, answers, strict=False)
        )
        """Slices of the second player in each settled pie, None if it refused."""
        over = len(answers) == offers
        player = None if over else len(moves) % 2
        accepted = [slices for slices in self.shares if slices is not None]
        self.got = (sum(pie - slices for slices in accepted), sum(accepted))
        """Slices of each player so far."""
        # A word must not contain a blank, because readers split a key at blanks.
        key = " ".join(action.replace(" ", "-") for action in moves)
        self.spellings: Mapping[str, Sequence[str]] = {}
        legal: tuple[str, ...] = ()
        if player == 0:
            self.spellings = {offer(slices): (str(slices),) for slices in range(1, pie + 1)}
            legal = tuple(self.spellings)
        elif player == 1:
            legal = (ACCEPT, REFUSE)
        super().__init__(
            player,
            (self.got[0] / (pie * offers), self.got[1] / (pie * offers)) if over else (0.0, 0.0),
            keys=(key, key),
            legal_actions=legal,
            origin=origin,
        )

    def follower(self, action: str) -> UltimatumState:
        return UltimatumState(self.pie, self.offers, (*self.said, action), self.origin.then(action))

    def won(self, seat: int) -> bool:
        # The sign of a return does not decide here, because no return is negative.
        return self.returns[seat] >= 0.5

    def tell(self, seat: int) -> str:
        lines = [
            self._which(number) + self._describe_pie(number, slices, seat) for number, slices in enumerate(self.shares)
        ]
        if self.player is None:
            lines.append(f"The hand is over: you have {self.got[seat]} of {_slices(self.pie * self.offers)}.")
        else:
            lines.append(self._which(len(self.shares)) + self._question(seat, self.player))
        return "\n".join(lines)

    def picture(self, seat: int) -> Picture:
        # Imported here, because most hands are played without pictures.
        from mage_envs.drawing import division as drawing

        rows = []
        for number in range(self.offers):
            # Pie n has its offer at index 2n of the moves and its answer after that.
            offered = slices_of(self.said[2 * number]) if 2 * number < len(self.said) else 0
            settled = number < len(self.shares)
            shares = (
                (self.pie - offered, offered) if offered and not (settled and self.shares[number] is None) else (0, 0)
            )
            label = f"Pie {number + 1}" + (": nobody gets it" if settled and shares == (0, 0) else "")
            rows.append(drawing.Shared(shares[seat], shares[1 - seat], settled, label))
        caption = f"You have {_slices(self.got[seat])}"
        return drawing.pies(self.pie, rows, caption if self.player is None else f"{caption} so far")

    def _which(self, number: int) -> str:
        return f"Pie {number + 1} of {self.offers}: " if self.offers > 1 else ""

    def _describe_pie(self, number: int, share: int | None, seat: int) -> str:
        offered = slices_of(self.said[2 * number])
        text = f"{('You', 'The other player')[seat]} offered {_slices(offered)} of {self.pie}; "
        if share is None:
            return f"{text}{('the other player refuses', 'you refuse')[seat]}: nobody gets anything."
        shares = (self.pie - share, share)
        accepts = ("the other player accepts", "you accept")[seat]
        return f"{text}{accepts}: {shares[seat]} for you, {shares[1 - seat]} for the other."

    def _question(self, seat: int, player: int) -> str:
        if player == 0:
            return ("The other player is yet to offer.", f"How many of the {self.pie} slices do you offer?")[seat == 0]
        offered = slices_of(self.said[-1])
        if seat == 0:
            return f"You offered {_slices(offered)} of {self.pie}. The other player is yet to answer."
        return (
            f"The other player offers you {_slices(offered)} of {self.pie}, and would keep {self.pie - offered}. "
            "Do you accept or refuse?"
        )


def _slices(count: int) -> str:
    return f"{count} slice{'s' * (count != 1)}"


@cache
def first_state(pie: int, offers: int) -> UltimatumState:
    """Return the shared first state of hands with these options."""
    return UltimatumState(pie, offers, (), Origin(first_state, (pie, offers)))


NEUTRAL = {
    "Ultimatum game": "Game",
    "pie": "stock",
    "pies": "stocks",
    "slice": "unit",
    "slices": "units",
    "offer": "pass",
    "an offer": "a pass",
    "offers": "passes",
    "offered": "passed",
    "accept": "close",
    "accepts": "closes",
    "accepted": "closed",
    "refuse": "drop",
    "refuses": "drops",
    "refused": "dropped",
}
"""Words for the style `neutral`."""


def _facts(offers: int, pie: int) -> GameSpec:
    series = (
        "" if offers == 1 else f" Then another pie is shared in the same way, {offers} in all; each is a new offer."
    )
    return GameSpec(
        name="Ultimatum",
        rules=(
            f"Ultimatum game. A pie of {_slices(pie)} is to be shared. The first player offers the second one of "
            "them or more. If the second player accepts, that is how they share it; if the second player refuses, "
            f"nobody gets anything.{series} Get as many slices as you can; how many the other player gets does not "
            "matter."
        ),
        unit="pies",
        general_sum=True,
        min_return=0.0,
        max_return=1.0,
        perfect_information=True,
        # A hand needs one action per pie. An illegal action also uses a turn, so the limit is higher.
        max_turns=2 * offers + 2,
        has_pictures=True,
        actions=(*(offer(slices) for slices in range(1, pie + 1)), ACCEPT, REFUSE),
        neutral=NEUTRAL,
    )


class Ultimatum(TableGame):
    """The ultimatum game: the learner shares a pie with a responder whose price is hidden.

    Rules: two players share a pie of 10 slices. The first player offers one or more of them to the second player. If
    the second player accepts, each gets its share. If it refuses, both get nothing. With `offers=2` a second pie
    follows in the same way. Each offer is independent of the others.

    Actions: `offer 1` to `offer 10` (a bare number is accepted too), `accept`, `refuse`.

    Observation: the offers and answers so far. Only the price that an opponent accepts is hidden. The learner makes the
    offers (first seat) by default.

    Returns: the player's share of the pie, from 0 to 1, as the mean over the offers.

    Success: at least half of the pie.

    Versions: v0.

    Args:
        offers: Pies in a hand, shared one after another (default: 1).
        pie: Slices of each pie (default: 10, maximum: 100).
    """

    spec = _facts(offers=1, pie=10)

    def __init__(self, offers: int = 1, pie: int = 10) -> None:
        check_positive("offers", offers)
        check_positive("pie", pie)
        if pie > _LARGEST:
            raise ValueError(f"pie={pie} must be at most {_LARGEST}.")
        self.spec = _facts(offers, pie)
        super().__init__([(1.0, first_state(pie, offers))])


SETTINGS = GameSettings(opponent="pool:ultimatum/reserves", seat="first", rewards=PAID_BY_RETURN)

RECORD = GameRecord(
    name="Ultimatum",
    entry_point=f"{__name__}:Ultimatum",
    settings=SETTINGS,
    opponents={"ultimatum": "mage_envs.opponents.games.ultimatum"},
)
