"""Texts of Leduc Poker (Southey et al. 2005, "Bayes' bluff"): cards by rank, the betting in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from mage_envs.games.openspiel.generic_texts import Texts
from mage_envs.spiel.wrappers import Unwrapped
from mage_envs.text.words.spelling import WordsOfState, move_word

RANKS = "JQK"
RULES = (
    "Leduc Poker. The deck has six cards: two each of J, Q and K, and K beats Q beats J. Both players put 1 chip into "
    "the pot and get one card each. There are two rounds of betting, which player 0 opens; between them one card is "
    "laid open on the table. On their turn a player checks or raises, or, facing a raise, folds, calls or raises "
    "again; a raise is 2 chips in the first round and 4 in the second, with at most two raises a round. At the end a "
    "player whose card has the rank of the open card wins; if nobody has such a pair, the higher card wins, and equal "
    "cards split the pot. Whoever folds loses what they put in. Win as many chips as you can. The actions are fold, "
    "check, call, raise, as they are listed."
)
NEUTRAL = {
    "Leduc Poker": "Card game",
    "J": "low",
    "Q": "middle",
    "K": "high",
    "jack": "low card",
    "queen": "middle card",
    "king": "high card",
    "chip": "unit",
    "chips": "units",
    "pot": "store",
    "betting": "lifting",
    "check": "wait",
    "checks": "waits",
    "call": "match",
    "calls": "matches",
    "raise": "lift",
    "raises": "lifts",
    "fold": "leave",
    "folds": "leaves",
}
"""Words for the style `neutral`."""
_VERBS = {"fold": "folds", "check": "checks", "call": "calls", "raise": "raises"}


def field(text: str, name: str) -> str:
    """Return the content of `[name: ...]` in OpenSpiel's information state."""
    return text.partition(f"[{name}: ")[2].partition("]")[0]


def _betting(text: str) -> Iterator[tuple[int, tuple[int, str]]]:
    """Yield (round, (player, word)) for every move in an information state."""
    # OpenSpiel writes moves as 0, 1 and 2. A 1 is a call if the round has a raise before it, else a check.
    for number in (1, 2):
        raised = False
        for index, move in enumerate(field(text, f"Round{number}").split()):
            word = {"0": "fold", "1": "call" if raised else "check", "2": "raise"}[move]
            raised = raised or move == "2"
            yield number, (index % 2, word)


def _rank(card: str, by_rank: bool) -> str:
    # Without suit isomorphism OpenSpiel numbers the cards 0 to 5, two per rank.
    return RANKS[int(card) if by_rank else int(card) // 2]


def _words(by_rank: bool, key: str, seat: int) -> tuple[str, ...]:
    """Return the own card, round 1, the open card, round 2, and the opponent's card if it is shown."""
    rounds: dict[int, list[str]] = {1: [], 2: []}
    for number, (mover, word) in _betting(key):
        rounds[number].append(move_word(word, mover == seat))
    opened, opponent_card = (
        [f"{whose}-{_rank(card, by_rank)}"] if card else []
        for whose, card in (("open", field(key, "Public")), ("opp", field(key, "Shown")))
    )
    return (_rank(field(key, "Private"), by_rank), *rounds[1], *opened, *rounds[2], *opponent_card)


class LeducTexts(Texts):
    """Texts of Leduc Poker for two players, of which player 0 opens. Other games use the generic texts."""

    unit = "chips"

    def __init__(self, game: Any, unwrapped: Unwrapped) -> None:
        super().__init__(game, unwrapped)
        # OpenSpiel has the first of these since 2.0.
        changed = self.parameters.get("starting_player") or self.parameters["action_mapping"]
        self._plain = bool(changed) or game.num_players() != 2
        self.worded = not self._plain
        self._by_rank = bool(self.parameters["suit_isomorphism"])

    def rules(self) -> str:
        return super().rules() if self._plain else RULES

    def neutral(self) -> Mapping[str, str]:
        return super().neutral() if self._plain else NEUTRAL

    def actions(self) -> tuple[str, ...] | None:
        return None if self._plain else ("fold", "check", "call", "raise")

    def action(self, state: Any, player: int, action: int) -> str:
        if player < 0 or self._plain:
            return super().action(state, player, action)
        if action != 1:
            return "fold" if action == 0 else "raise"
        # Folding is legal exactly if there is a raise to answer.
        return "call" if 0 in state.legal_actions() else "check"

    def words(self) -> WordsOfState:
        return super().words() if self._plain else partial(_words, self._by_rank)

    def key(self, state: Any, player: int) -> str:
        # OpenSpiel's information state does not contain the opponent's card that a showdown reveals.
        text = super().key(state, player)
        if self._plain or not state.is_terminal() or list(_betting(text))[-1][1][1] == "fold":
            return text
        return f"{text}[Shown: {field(state.information_state_string(1 - player), 'Private')}]"

    def _rank(self, card: str) -> str:
        return _rank(card, self._by_rank)

    def view(self, state: Any, player: int) -> str:
        if self._plain:
            return super().view(state, player)
        text = state.information_state_string(player)
        public = field(text, "Public")
        lines = [
            f"Your card: {self._rank(field(text, 'Private'))}. "
            f"The open card: {self._rank(public) if public else 'not shown yet'}."
        ]
        moves = list(_betting(text))
        for number in (1, 2):
            words = [word if mover == player else _VERBS[word] for round_, (mover, word) in moves if round_ == number]
            movers = [mover for round_, (mover, _) in moves if round_ == number]
            story = ", ".join(
                f"{'you' if mover == player else 'the opponent'} {word}"
                for mover, word in zip(movers, words, strict=True)
            )
            if story:
                lines.append(f"Round {number}: {story}.")
        if not state.is_terminal():
            money = field(text, "Money").split()
            # OpenSpiel gives each player 100 chips and reports the chips that remain.
            chips = [100 - int(float(remaining)) for remaining in money]
            lines.append(f"In the pot: {chips[player]} from you, {chips[1 - player]} from the opponent.")
        elif moves[-1][1][1] != "fold":
            lines.append(
                f"The opponent had {self._rank(field(state.information_state_string(1 - player), 'Private'))}."
            )
        return "\n".join(lines)

    def result(self, state: Any, player: int) -> str:
        if self._plain:
            return super().result(state, player)
        won = state.returns()[player]
        chips = int(abs(won))
        if not chips:
            return "the pot is split"
        return f"you {'win' if won > 0 else 'lose'} {chips} chip{'s' * (chips != 1)}"
