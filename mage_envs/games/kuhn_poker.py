"""Kuhn Poker.

Rules: three cards J < Q < K, one dealt to each of two players, who both ante 1 chip. The first player checks or
bets 1. After a check the second player checks (showdown) or bets; a bet is answered by call (showdown) or fold.
The higher card wins the pot at a showdown.
Actions: `check`, `bet`, `call`, `fold` as the situation has it; PASS and BET are accepted too (PASS is check or
fold, BET is bet or call), in any case.
Observation: one's card, one's seat, the betting; at the end the payoff and, at a showdown, the opponent's card.
A fold reveals nothing, unless `reveal="always"`.
Returns: chips, 1 or 2 either way.
Versions: v0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import permutations
from operator import attrgetter

from mage_envs.core import EpisodeReward, HandResult, outcome_reward
from mage_envs.drawing import Picture
from mage_envs.drawing import kuhn as drawing
from mage_envs.games.table import TableGame, TableNode

CARDS = ("J", "Q", "K")
DEALS = tuple(permutations(range(3), 2))
"""The six deals: (first player's card, second player's)."""
TO_ACT: Mapping[str, int] = {"": 0, "p": 1, "b": 1, "pb": 0}
"""Betting (p: check or fold, b: bet or call) to the player to act; other strings end the hand."""
MOVES: Mapping[str, tuple[str, str]] = {
    "": ("check", "bet"),
    "p": ("check", "bet"),
    "b": ("fold", "call"),
    "pb": ("fold", "call"),
}
POT: Mapping[str, int] = {"pp": 1, "bb": 2, "pbb": 2, "bp": 1, "pbp": 1}
"""Chips that change hands at the end."""
FOLDED: Mapping[str, int] = {"bp": 1, "pbp": 0}
"""Who folded."""
_VERBS = {"check": "checks", "bet": "bets", "call": "calls", "fold": "folds"}
_YOU = {0: "first", 1: "second"}
_VALUE: Callable[[HandResult], float] = attrgetter("value")


def _moves(betting: str, player: int) -> Iterator[tuple[bool, str]]:
    """Every move so far: whether it was `player`'s, and its word."""
    for index, letter in enumerate(betting):
        before = betting[:index]
        yield TO_ACT[before] == player, MOVES[before]["pb".index(letter)]


def _is_shown(betting: str, reveal: bool) -> bool:
    """Whether a hand that is over shows the opponent's card."""
    return reveal or betting not in FOLDED


def _chips(won: int) -> str:
    return f"{'win' if won > 0 else 'lose'} {abs(won)} chip{'s' * (abs(won) != 1)}"


def _story(betting: str, player: int) -> str:
    said = [f"you {move}" if mine else f"the opponent {_VERBS[move]}" for mine, move in _moves(betting, player)]
    text = ", then ".join(said)
    return f"{text[0].upper()}{text[1:]}." if text else "No action yet."


def _observation(deal: tuple[int, int], betting: str, player: int, returns: tuple[float, float], reveal: bool) -> str:
    text = f"Your card: {CARDS[deal[player]]}. You act {_YOU[player]}. {_story(betting, player)}"
    if betting in POT:
        text += f" The hand is over: you {_chips(int(returns[player]))}."
        if _is_shown(betting, reveal):
            text += f" The opponent had {CARDS[deal[1 - player]]}."
    return text


@cache
def deals(reveal: bool) -> tuple[TableNode, ...]:
    """The root of each of `DEALS`; 54 nodes in all, shared by all games."""

    def build(deal: tuple[int, int], betting: str) -> TableNode:
        returns = (0.0, 0.0)
        if betting in POT:
            first_wins = FOLDED[betting] == 1 if betting in FOLDED else deal[0] > deal[1]
            returns = (
                (float(POT[betting]), -float(POT[betting]))
                if first_wins
                else (-float(POT[betting]), float(POT[betting]))
            )
        node = TableNode(
            TO_ACT.get(betting),
            (_observation(deal, betting, 0, returns, reveal), _observation(deal, betting, 1, returns, reveal)),
            (CARDS[deal[0]] + betting, CARDS[deal[1]] + betting),
            returns,
        )
        if betting in MOVES:
            passive, active = MOVES[betting]
            node.connect(
                {passive: build(deal, betting + "p"), active: build(deal, betting + "b")},
                {passive: ("pass", "PASS"), active: ("bet", "BET")},
            )
        return node

    return tuple(build(deal, "") for deal in DEALS)


def mean_chips_reward(hands: Sequence[HandResult], planned: int) -> float:
    """5 x mean chips per hand, unplayed hands counting nothing."""
    return 5.0 * sum(map(_VALUE, hands)) / planned


def chips_reward(hands: Sequence[HandResult], planned: int) -> float:
    """5 x chips, as the released code pays."""
    return 5.0 * sum(map(_VALUE, hands))


class KuhnPoker(TableGame):
    """Kuhn Poker; see the module's text for rules, actions, observation and returns.

    `reveal`: `"showdown"` (default) or `"always"`, which shows the opponent's card after every hand.
    """

    name = "KuhnPoker"
    rules = (
        "Kuhn Poker. The deck has three cards: J, Q, K, and K beats Q beats J. Both players put 1 chip into the pot "
        "and get one card each. The first player checks or bets 1 chip. After a check the second player checks, and "
        "the cards are compared, or bets 1 chip. Whoever faces a bet calls it with 1 chip, and the cards are "
        "compared, or folds and loses the pot. The higher card wins. Win as many chips as you can."
    )
    min_return = -2.0
    max_return = 2.0
    max_turns = 6
    length_penalty = 2.0
    unit = "chips"
    default_opponent = "pool:kuhn/paper"
    rewards: Mapping[str, EpisodeReward] = {  # type: ignore[misc]
        "task": mean_chips_reward,
        "released": chips_reward,
        "sign": outcome_reward,
    }

    def __init__(self, reveal: str = "showdown") -> None:
        if reveal not in ("showdown", "always"):
            raise ValueError(f"reveal={reveal!r} is unknown; choose 'showdown' or 'always'.")
        self._reveals = reveal == "always"
        self._roots = tuple((1 / len(DEALS), node) for node in deals(self._reveals))

    def roots(self) -> Sequence[tuple[float, TableNode]]:
        return self._roots

    def root_at(self, draw: float) -> TableNode:
        return self._roots[int(draw * len(DEALS))][1]

    def actions(self) -> tuple[str, ...]:
        return ("check", "bet", "call", "fold")

    def picture(self, player: int) -> Picture:
        node = self.node
        own, betting, over = node.keys[player][0], node.keys[player][1:], node.player is None
        other = node.keys[1 - player][0] if over and _is_shown(betting, self._reveals) else None
        chips = int(node.returns[player])
        if over:
            caption = f"You {_chips(chips)}"
        else:
            caption = f"Your turn: {' or '.join(node.legal)}" if node.player == player else "The opponent's turn"
        moves = list(_moves(betting, player))
        return drawing.hand(own, other, moves, chips > 0 if over else None, caption, first=player == 0)
