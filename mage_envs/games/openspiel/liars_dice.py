"""Texts of Liar's Dice: bids in words, the hidden dice shown at the end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from mage_envs.games.openspiel.generic_texts import Texts
from mage_envs.spiel.wrappers import Unwrapped
from mage_envs.text.words.spelling import WordsOfState, move_word

_FACES = ("one", "two", "three", "four", "five", "six")


def _faces(sides: int) -> tuple[tuple[str, str], ...]:
    """Return (singular, plural) of every face."""
    words = [(word, f"{word}es" if word.endswith("x") else f"{word}s") for word in _FACES]
    return tuple(words[face] if face < len(words) else (f"{face + 1}", f"{face + 1}s") for face in range(sides))


def _bid(count: int, face: int, sides: int) -> str:
    """Return a bid in words; `face` counts from 0."""
    return f"{count} {_faces(sides)[face][count > 1]}"


def _words(sides: int, key: str, seat: int) -> tuple[str, ...]:
    """Return the own dice, the bids, and the opponent's dice if they are shown."""
    story, _, opponent_dice = key.partition("|")
    dice, *moves = story.split()
    bids = [
        _bid(int(count), int(face) - 1, sides) for count, _, face in (move.partition("-") for move in moves) if face
    ]
    called = ["liar"] if len(bids) < len(moves) else []
    spoken = [move_word(move, turn % 2 == seat) for turn, move in enumerate([*bids, *called])]
    return (*(f"die-{die}" for die in dice), *spoken, *(f"opp-die-{die}" for die in opponent_dice))


# The dice are not part of the key, so hands with other dice reuse the text of the same bids.
@lru_cache(maxsize=8192)
def _story(actions: tuple[str, ...], moves: tuple[int, ...], player: int) -> str:
    """Return the bids so far in words, as `player` sees them."""
    bids = [f"{'you' if turn % 2 == player else 'the opponent'}: {actions[move]}" for turn, move in enumerate(moves)]
    return ", ".join(bids) or "none yet"


class LiarsDiceTexts(Texts):
    """Texts of Liar's Dice for two players and the bidding rule `reset-face`.

    The number of dice and faces is free. Other settings use the generic texts.
    """

    def __init__(self, game: Any, unwrapped: Unwrapped) -> None:
        super().__init__(game, unwrapped)
        self._dice, self._sides = int(self.parameters["numdice"]), int(self.parameters["dice_sides"])
        self._plain = self.parameters["bidding_rule"] != "reset-face" or game.num_players() != 2
        self.worded = not self._plain
        self._spelled = self._sides < 10
        """True if each die is one digit in OpenSpiel's string, so that the dice can be separated."""
        bids = [_bid(count, face, self._sides) for count in range(1, 2 * self._dice + 1) for face in range(self._sides)]
        self._actions: tuple[str, ...] = (*bids, "liar")

    def rules(self) -> str:
        if self._plain:
            return super().rules()
        dice = "one die" if self._dice == 1 else f"{self._dice} dice"
        return (
            f"Liar's Dice. Each of two players rolls {dice} with the faces 1 to {self._sides} and sees only their own. "
            "Player 0 begins, then they take turns. A player makes a bid on all the dice together, such as "
            f"'2 {_faces(self._sides)[1][1]}': at least two dice show that face. A face of {self._sides} is wild and "
            "counts as every face. Each bid must be higher than the last: more dice, or as many with a higher face. "
            "Instead of bidding, a player may say 'liar' to the last bid: then the dice are shown, the bidder wins if "
            "the bid was true, and the other player if it was not. A bid is written as it is listed."
        )

    def actions(self) -> tuple[str, ...] | None:
        return None if self._plain else self._actions

    def action(self, state: Any, player: int, action: int) -> str:
        # OpenSpiel reports chance as a negative player; its outcomes are not bids.
        return super().action(state, player, action) if player < 0 or self._plain else self._actions[action]

    def unique(self, state: Any, player: int, actions: Sequence[int]) -> tuple[str, ...]:
        if player < 0 or self._plain:
            return super().unique(state, player, actions)
        # All bids differ, so the search for equal texts is skipped.
        return tuple([self._actions[action] for action in actions])

    def words(self) -> WordsOfState:
        return super().words() if self._plain or not self._spelled else partial(_words, self._sides)

    def key(self, state: Any, player: int) -> str:
        text = super().key(state, player)
        return f"{text}|{str(state).split()[1 - player]}" if state.is_terminal() and not self._plain else text

    def view(self, state: Any, player: int) -> str:
        if self._plain:
            return super().view(state, player)
        dice = [" ".join(part) for part in str(state).split()[:2]] if self._spelled else str(state).split()[:2]
        # The history starts with the rolls of both players' dice.
        label = "Your die" if self._dice == 1 else "Your dice"
        story = _story(self._actions, tuple(state.history()[2 * self._dice :]), player)
        lines = [f"{label}: {dice[player]}.", f"Bids: {story}."]
        if state.is_terminal():
            lines.append(f"The opponent had {dice[1 - player]}.")
        return "\n".join(lines)

    def result(self, state: Any, player: int) -> str:
        if self._plain:
            return super().result(state, player)
        return "you won" if state.returns()[player] > 0 else "you lost"
