"""Kuhn Poker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import permutations

from mage_envs.core import GameSpec
from mage_envs.drawing import Picture
from mage_envs.game_record import GameRecord
from mage_envs.games.table_game import TableGame, TableState
from mage_envs.loading.options import check_choice
from mage_envs.settings import GameSettings, five_times_total, mean_reward, outcome_reward
from mage_envs.text.words.spelling import move_word

CARDS = ("J", "Q", "K")
DEALS = tuple(permutations(range(3), 2))
"""The six deals as (first player's card, second player's card), indices of `CARDS`."""
TO_ACT: Mapping[str, int] = {"": 0, "p": 1, "b": 1, "pb": 0}
"""Betting (p: check or fold, b: bet or call) to the player to act. Any other string ends the hand."""
MOVES: Mapping[str, tuple[str, str]] = {
    "": ("check", "bet"),
    "p": ("check", "bet"),
    "b": ("fold", "call"),
    "pb": ("fold", "call"),
}
POT: Mapping[str, int] = {"pp": 1, "bb": 2, "pbb": 2, "bp": 1, "pbp": 1}
"""Final betting to the chips that the loser pays the winner."""
FOLDED: Mapping[str, int] = {"bp": 1, "pbp": 0}
"""Final betting to the player that folded."""
_VERBS = {"check": "checks", "bet": "bets", "call": "calls", "fold": "folds"}
_YOU = {0: "first", 1: "second"}


NEUTRAL = {
    "Kuhn Poker": "Card game",
    "J": "low",
    "Q": "middle",
    "K": "high",
    "chip": "unit",
    "chips": "units",
    "pot": "store",
    "check": "wait",
    "checks": "waits",
    "bet": "lift",
    "bets": "lifts",
    "call": "match",
    "calls": "matches",
    "fold": "leave",
    "folds": "leaves",
}
"""Words for the style `neutral`."""


def _moves(betting: str, player: int) -> Iterator[tuple[bool, str]]:
    """Yield (True if it was `player`'s move, action) for every move so far."""
    for index, letter in enumerate(betting):
        betting_before = betting[:index]
        yield TO_ACT[betting_before] == player, MOVES[betting_before]["pb".index(letter)]


def _words(information_state: str, seat: int) -> tuple[str, ...]:
    """Return the own card, the betting, and the opponent's card if it is shown, as words."""
    hand, _, opponent_card = information_state.partition("|")
    return (
        hand[0],
        *(move_word(move, mine) for mine, move in _moves(hand[1:], seat)),
        *([f"opp-{opponent_card}"] if opponent_card else []),
    )


def _is_shown(betting: str, reveal: bool) -> bool:
    """Return True if a finished hand shows the opponent's card."""
    return reveal or betting not in FOLDED


def _chips(won: int) -> str:
    return f"{'win' if won > 0 else 'lose'} {abs(won)} chip{'s' * (abs(won) != 1)}"


def _story(betting: str, player: int) -> str:
    phrases = [f"you {move}" if mine else f"the opponent {_VERBS[move]}" for mine, move in _moves(betting, player)]
    text = ", then ".join(phrases)
    return f"{text[0].upper()}{text[1:]}." if text else "No action yet."


def _observation(
    deal: tuple[int, int], betting: str, player: int, returns: tuple[float, float], is_showdown: bool
) -> str:
    text = f"Your card: {CARDS[deal[player]]}. You act {_YOU[player]}. {_story(betting, player)}"
    if betting in POT:
        text += f" The hand is over: you {_chips(int(returns[player]))}."
        if is_showdown:
            text += f" The opponent had {CARDS[deal[1 - player]]}."
    return text


class KuhnState(TableState):
    """One of the 54 states for one value of `reveal`.

    An information state is the own card and the betting, such as `Kpb` (p: check or fold, b: bet or call). If the
    opponent's card is shown at the end, `|` and that card follow, as in `Kbb|Q`.
    """

    def __init__(self, deal: tuple[int, int], betting: str, reveal: bool) -> None:
        self.deal, self.betting = deal, betting
        self.shown = betting in POT and _is_shown(betting, reveal)
        """True if the hand is over and shows both cards."""
        returns = (0.0, 0.0)
        if betting in POT:
            first_wins = FOLDED[betting] == 1 if betting in FOLDED else deal[0] > deal[1]
            chips = float(POT[betting])
            returns = (chips, -chips) if first_wins else (-chips, chips)
        super().__init__(
            TO_ACT.get(betting),
            returns,
            observations=tuple(_observation(deal, betting, seat, returns, self.shown) for seat in (0, 1)),
            keys=tuple(
                f"{CARDS[deal[seat]]}{betting}{'|' + CARDS[deal[1 - seat]] if self.shown else ''}" for seat in (0, 1)
            ),
            # Unpickling looks the state up in the shared table of its process, which finds deals by index.
            origin=(state_of, (DEALS.index(deal), betting, reveal)),
        )
        if betting in MOVES:
            passive, active = MOVES[betting]
            self.connect(
                {
                    passive: KuhnState(deal, betting + "p", reveal),
                    active: KuhnState(deal, betting + "b", reveal),
                },
                # The spelling "PASS" or "BET" fits both situations, because each state has its own table. The upper
                # case is listed too, because an exact match needs no normalization.
                {passive: ("pass", "PASS"), active: ("bet", "BET")},
            )

    def picture(self, seat: int) -> Picture:
        # Imported here, because most hands are played without pictures.
        from mage_envs.drawing import kuhn as drawing

        own_card, over = CARDS[self.deal[seat]], self.player is None
        opponent_card = CARDS[self.deal[1 - seat]] if self.shown else None
        chips = int(self.returns[seat])
        if over:
            caption = f"You {_chips(chips)}"
        else:
            caption = f"Your turn: {' or '.join(self.legal_actions)}" if self.player == seat else "The opponent's turn"
        moves = list(_moves(self.betting, seat))
        return drawing.hand(own_card, opponent_card, moves, chips > 0 if over else None, caption, acts_first=seat == 0)


@cache
def deals(reveal: bool) -> tuple[tuple[float, KuhnState], ...]:
    """Return (probability, first state) of each of `DEALS`, shared by all games."""
    return tuple((1 / len(DEALS), KuhnState(deal, "", reveal)) for deal in DEALS)


def state_of(deal: int, betting: str, reveal: bool) -> TableState:
    """Return the shared state of a hand.

    Args:
        deal: Index of the deal in `DEALS`.
        betting: Moves so far, such as `pb`.
        reveal: True if every hand shows the opponent's card.
    """
    state: TableState = deals(reveal)[deal][1]
    for index, letter in enumerate(betting):
        state = state.after(MOVES[betting[:index]]["pb".index(letter)])
    return state


class KuhnPoker(TableGame):
    """Kuhn Poker with two players, returns in chips.

    Rules: there are three cards J < Q < K, and each player gets one. Both ante 1 chip. The first player checks or bets
    1 chip. After a check, the second player checks (showdown) or bets. The answer to a bet is call (showdown) or fold.
    The higher card wins the pot at a showdown.

    Actions: `check` or `bet`, and after a bet `call` or `fold`. PASS and BET are accepted too, in any case: PASS is
    check or fold, BET is bet or call.

    Observation: the player's own card, its seat and the betting. At the end also the payoff and, at a showdown, the
    opponent's card. A fold reveals nothing unless `reveal="always"`.

    Returns: chips won, 1 or 2, negative for a loss.

    Success: more chips won than lost.

    Versions: v0.

    Args:
        reveal: `"showdown"` (default), or `"always"` to show the opponent's card after every hand.
    """

    spec = GameSpec(
        name="KuhnPoker",
        rules=(
            "Kuhn Poker. The deck has three cards: J, Q, K, and K beats Q beats J. Both players put 1 chip into the "
            "pot and get one card each. The first player checks or bets 1 chip. After a check the second player "
            "checks, and the cards are compared, or bets 1 chip. Whoever faces a bet calls it with 1 chip, and the "
            "cards are compared, or folds and loses the pot. The higher card wins. Win as many chips as you can."
        ),
        unit="chips",
        min_return=-2.0,
        max_return=2.0,
        # A player acts at most twice. An illegal action also uses a turn, so the limit is higher.
        max_turns=6,
        actions=("check", "bet", "call", "fold"),
        words=_words,
        neutral=NEUTRAL,
        lists_actions_in_paper=False,
        has_pictures=True,
    )

    def __init__(self, reveal: str = "showdown") -> None:
        check_choice("reveal", reveal, ("showdown", "always"))
        super().__init__(deals(reveal == "always"))


SETTINGS = GameSettings(
    opponent="pool:kuhn/paper",
    length_penalty=2.0,
    rewards={"task": mean_reward, "released": five_times_total, "sign": outcome_reward},
)

RECORD = GameRecord(
    name="KuhnPoker",
    entry_point=f"{__name__}:KuhnPoker",
    settings=SETTINGS,
    opponents={"kuhn": "mage_envs.opponents.games.kuhn"},
    presets={"kuhn": ({"opponents": "pool:kuhn/paper", "beta": 0.1}, {"max_turns": 6})},
    small_models={
        "kuhn": {
            "opponents": "pool:kuhn/paper",
            "imitate": ["policy:bayes:kuhn/paper,3,1"],
            "learning_rate": 1e-4,
            "advantage": "exact",
            "statistics": "pooled",
        }
    },
    panels={
        "kuhn-train": {
            "opponents": "pool:kuhn/demo",
            "seats": (0, 1),
            "seed": 1,
            "about": "the four soft archetypes that the demo meets",
        },
        "kuhn-heldout": {
            "opponents": dict.fromkeys(
                ("kuhn/rock", "kuhn/maniac", "kuhn/caller", "kuhn/bluffer", "uniform", "cfr"), 1.0
            ),
            "seats": (0, 1),
            "seed": 2,
            "about": "six that no preset and no demo meets",
        },
        "kuhn-paper": {
            "opponents": "pool:kuhn/paper",
            "seats": (0, 1),
            "seed": 3,
            "about": "the paper's archetypes, weighted .3/.3/.4, from both seats",
        },
    },
)
