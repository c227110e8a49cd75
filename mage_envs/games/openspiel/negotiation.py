"""Texts of Negotiation: OpenSpiel's bargaining (Lewis et al. 2017, "Deal or no deal?"), offers in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mage_envs.games.openspiel.generic_texts import Texts
from mage_envs.spiel.wrappers import Unwrapped
from mage_envs.text.words.spelling import WordsOfState, move_word

ITEMS = (("book", "books"), ("hat", "hats"), ("ball", "balls"))


def _format_items(numbers: Sequence[int]) -> str:
    return ", ".join(f"{count} {ITEMS[item][count != 1]}" for item, count in enumerate(numbers))


def _numbers(text: str) -> list[int]:
    """Return the three numbers of OpenSpiel's `Book: 1, Hat: 3, Basketball: 1`."""
    return [int(part.rpartition(":")[2]) for part in text.split(",")]


def _words(key: str, seat: int) -> tuple[str, ...]:
    """Return the pool, the own values, the offers, and the agreement if there is one."""
    pool, values, agreed, *offers = key.splitlines()
    things = [
        f"{count}-{item[count != 1]}" for count, item in zip(_numbers(pool.partition(":")[2]), ITEMS, strict=True)
    ]
    worth = zip(ITEMS, _numbers(values.partition(":")[2]), strict=True)
    moves = [f"keep {_format_items(_numbers(offer.partition('Offer:')[2]))}" for offer in offers]
    moves += ["agree"] if agreed.endswith("1") else []
    spoken = [move_word(move, turn % 2 == seat) for turn, move in enumerate(moves)]
    return (*things, *(f"{item}-{value}" for (item, _), value in worth), *spoken)


class NegotiationTexts(Texts):
    """Texts of Negotiation about books, hats and balls."""

    def __init__(self, game: Any, unwrapped: Unwrapped) -> None:
        super().__init__(game, unwrapped)
        self.worded = True
        # OpenSpiel numbers the offers first; the last action is the agreement.
        self._agree = self.inner.num_distinct_actions() - 1
        offers = [self.inner.action_to_string(0, action) for action in range(self._agree)]
        self._actions: tuple[str, ...] = (
            *(f"keep {_format_items(_numbers(offer.partition(':')[2]))}" for offer in offers),
            "agree",
        )
        self._turns = int(self.parameters["max_turns"])
        """Maximum number of turns in a hand."""

    def rules(self) -> str:
        parameters = self.parameters
        fading = (
            f" Each further turn after the second shrinks the points by the factor {parameters['discount']:g}."
            if (parameters["discount"] != 1)
            else ""
        )
        breaking = (
            f" After each turn the talks break off with probability {parameters['prob_end']:g}."
            if (parameters["prob_end"])
            else ""
        )
        return (
            "Negotiation. Two players share out a pool of books, hats and balls. Each player values the items in their "
            "own way and does not know the other's values; the whole pool is worth 10 points to either. Player 0 "
            "begins, then they take turns. On their turn a player agrees to the other's last offer, or makes one of "
            "their own: they say what they keep, and the other player would get the rest. An agreement ends the hand, "
            f"and each player scores the value of what they get. After {self._turns} turns without an agreement both "
            f"get nothing.{fading}{breaking} Score as many points as you can. An offer is written as in "
            "'keep 1 book, 0 hats, 2 balls', with all three items; the other action is 'agree'."
        )

    def words(self) -> WordsOfState:
        return _words

    def action(self, state: Any, player: int, action: int) -> str:
        return super().action(state, player, action) if player < 0 else self._actions[action]

    def view(self, state: Any, player: int) -> str:
        # OpenSpiel's lines: the pool, the own values, whether there is an agreement, then one line per offer.
        source_lines = state.information_state_string(player).splitlines()
        pool, values = _numbers(source_lines[0].partition(":")[2]), _numbers(source_lines[1].partition(":")[2])
        worth = ", ".join(f"{ITEMS[item][0]} {value}" for item, value in enumerate(values))
        lines = [f"The pool: {_format_items(pool)}.", f"Your values: {worth}."]
        offers = [line.partition("Offer:")[2] for line in source_lines[3:]]
        for turn, offer in enumerate(offers):
            speaker = "You keep" if turn % 2 == player else "The opponent keeps"
            lines.append(f"Offer {turn + 1}: {speaker} {_format_items(_numbers(offer))}.")
        if not offers:
            lines.append("No offer yet.")
        return "\n".join(lines)

    def result(self, state: Any, player: int) -> str:
        if state.information_state_string(player).splitlines()[2].endswith("0"):
            return "there is no agreement, and nobody scores"
        return f"there is an agreement, and you score {state.returns()[player]:g}"
