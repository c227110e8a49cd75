"""Exact values of SokobanControls as means over rooms, and exact prices of decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from mage_envs.core import NotEnumerable
from mage_envs.games.sokoban.controls import KEYS, WIRINGS, SokobanControls
from mage_envs.games.sokoban.level import Level, parse_board
from mage_envs.opponents.exact.learner_hands import Floats
from mage_envs.opponents.exact.regret import HandRegret
from mage_envs.opponents.exact.rest import PlayedHand
from mage_envs.opponents.exact.tree import Objective
from mage_envs.opponents.pools import OpponentPool
from mage_envs.opponents.solo.key_learner import KeyLearner, RoomPayoffs, best_learner, boards_of
from mage_envs.opponents.solo.wirings import ALL, RoomValues, canonical

_LEFT = "\nKeys left: "


class KeyPrices:
    """The losses of pressed keys against the optimal learner for the sum of the episodes.

    As with cards, the luck of a room is left out: the value before it is the mean over rooms. Without it, the value of
    a player is exact if its rooms are drawn independently from those of the learner.
    """

    def __init__(self, learner: KeyLearner) -> None:
        """Prepare the prices. A learner of one episode judges each hand by itself."""
        self._learner = learner

    def judge(self, hands: Sequence[PlayedHand], opponent: str | None = None) -> list[HandRegret]:
        """Return the regrets of each hand of a meta-episode, in the order of play.

        Args:
            opponent: Name of the wiring, such as `controls:udlr`, for a judge that knows it; None: all wirings.
        """
        wirings = ALL if opponent is None else 1 << WIRINGS.index(opponent.partition(":")[2])
        regrets = []
        for hand in hands:
            regret, wirings = self._judge_hand(hand, wirings)
            regrets.append(regret)
        return regrets

    def _judge_hand(self, hand: PlayedHand, wirings: int) -> tuple[HandRegret, int]:
        """Return the regrets of a hand, and the wirings that are possible after it."""
        episode = min(hand.position, self._learner.episodes - 1)
        prior = _belief(wirings)
        available = remaining_value = sum(self._learner.start_payoffs(episode, canonical(wirings)))
        boards = [choice.information_state for choice in hand.choices] + [hand.ending or ""]
        payoffs: RoomPayoffs | None = None
        regrets, beliefs = list[float](), list[tuple[float, ...]]()
        bests, values_by_choice = list[str](), list[Mapping[str, float]]()
        for choice, text, next_text in zip(hand.choices, boards, boards[1:], strict=False):
            level, position = _read(text)
            if payoffs is None:
                payoffs = self._learner.in_room(level, episode)
            values = {
                action: sum(payoffs.of_keys(position, wirings, [KEYS.index(key) for key in action.split(", ")]))
                for action in {**dict.fromkeys(KEYS), choice.action: None}
            }
            # A key by itself shows most, so the best action is one of them.
            best = max(KEYS, key=values.__getitem__)
            remaining_value = values[choice.action]
            regrets.append(values[best] - remaining_value)
            beliefs.append(_belief(wirings))
            bests.append(best)
            values_by_choice.append(values)
            if next_text:
                keys = [KEYS.index(key) for key in choice.action.split(", ")]
                wirings = payoffs.board.outcomes(position, wirings, keys)[_read(next_text)[1]]
        if not hand.by_rules:
            # The rules do not explain this ending, so its regret is the value that was left minus the actual payoff.
            later_payoffs = self._learner.start_payoffs(episode + 1, canonical(wirings))
            regrets.append(remaining_value - hand.value - sum(later_payoffs))
        regret = HandRegret(
            value=hand.value,
            available=available,
            regrets=tuple(regrets),
            beliefs=tuple(beliefs),
            bests=tuple(bests),
            values=tuple(values_by_choice),
            prior=prior,
        )
        return regret, wirings


class ControlsSolution:
    """Exact values of SokobanControls for a fixed sample of rooms. Each episode draws one of them, independently."""

    known = 1.0

    def __init__(self, game: SokobanControls, episodes: int) -> None:
        self._game, self._boards = game, boards_of(game)
        self._each = []
        for board, keys in self._boards:
            level = board.room.level
            self._each.append(RoomValues(board.room).value(level.boxes, level.player, keys, canonical(ALL)))
        self.blind = float(np.mean(self._each))
        self.states = 0
        error = float(np.std(self._each, ddof=1)) / len(self._each) ** 0.5
        self.note = (
            f"exact for {len(self._each)} rooms, drawn independently; over all rooms blind has a standard error of "
            f"{error:.3f}. myopic presses keys that it knows once a room is lost."
        )

    def per_episode(self, weights: Floats, myopic: bool) -> Iterator[float]:
        """Return the value in each episode of the optimal learner for these weights.

        A myopic learner explores only where this costs nothing and gains something in its own episode. So it presses
        known keys once a room is lost.
        """
        learner = KeyLearner(self._boards, weights, explores=not myopic)
        payoffs = learner.start_payoffs(0, canonical(ALL))
        self.states += learner.states
        return iter(payoffs)

    def prices(self, episodes: int) -> KeyPrices:
        """Return the prices of decisions by the rest of that many episodes."""
        return KeyPrices(best_learner(self._game, episodes))


def solve_controls(game: SokobanControls, pool: OpponentPool, episodes: int, objective: Objective) -> ControlsSolution:
    """Return the exact values of the game. Raises NotEnumerable unless the pool holds all wirings equally often."""
    names = {str(entry).partition(":")[2] for entry in pool.entries}
    if names != set(WIRINGS) or len(set(pool.weights)) > 1:
        raise NotEnumerable("SokobanControls is solved for the pool of all wirings, controls/all, alone.")
    return ControlsSolution(game, episodes)


def _belief(wirings: int) -> tuple[float, ...]:
    """Return the probability of each wiring."""
    return tuple((wirings >> number & 1) / wirings.bit_count() for number in range(len(WIRINGS)))


def _read(text: str) -> tuple[Level, tuple[int, int, int]]:
    """Return the board of a text, with its boxes, the player's cell and the keys left."""
    level = parse_board(text)
    # A solved board shows a sentence after the number, and an information state the effects so far.
    return level, (level.boxes, level.player, int(text.partition(_LEFT)[2].split()[0]))
