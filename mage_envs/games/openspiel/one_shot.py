"""Texts of games in which all players choose once, at the same time: payoffs in the rules, choices in the results.

They serve normal-form games, the repeated games made of them, and games from a file of payoffs.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from mage_envs.games.openspiel.generic_texts import Texts
from mage_envs.spiel.wrappers import Unwrapped

MAX_PAYOFFS = 100
"""Maximum number of combinations of choices that the rules list."""
_SEATS = ("the row player", "the column player")


class OneShotTexts(Texts):
    """Texts of a game whose players all choose once. Its payoffs come from OpenSpiel."""

    def __init__(self, game: Any, unwrapped: Unwrapped) -> None:
        super().__init__(game, unwrapped)
        self._payoffs = self._list_payoffs()
        self.worded = self.worded or bool(self._payoffs)

    def _list_payoffs(self) -> str:
        """Return every combination of choices with its payoffs, or an empty text if there are too many."""
        start, players = self.inner.new_initial_state(), range(self.inner.num_players())
        choices = [start.legal_actions(player) for player in players]
        lines: list[str] = []
        for joint in product(*choices):
            if len(lines) == MAX_PAYOFFS:
                return ""
            end = start.clone()
            end.apply_actions(joint)
            names = [str(start.action_to_string(player, action)) for player, action in zip(players, joint, strict=True)]
            lines.append(f"{', '.join(names)}: {', '.join(f'{value:g}' for value in end.returns())}")
        return "\n".join(lines)

    def rules(self) -> str:
        if not self._payoffs:
            return super().rules()
        seats = _SEATS if self.inner.num_players() == 2 else ()
        order = " and ".join(seats) or f"players 0 to {self.inner.num_players() - 1} in this order"
        start = self.inner.new_initial_state()
        names = [str(start.action_to_string(0, action)) for action in start.legal_actions(0)]
        return (
            f"{self.inner.get_type().long_name}. All players choose at the same time, without seeing each other's "
            f"choice. Each line has the choices of {order}, and after the colon their points:\n{self._payoffs}\n"
            f"Score as many points as you can. An action is one of the names above, as in '{names[0]}'."
        )

    def place(self, player: int) -> str:
        if self._payoffs and self.game.num_players() == 2:
            return f"You are {_SEATS[player]}."
        return super().place(player)

    def view(self, state: Any, player: int) -> str:
        """Return the choices of all complete rounds in words. A choice of a running round stays hidden."""
        players, history = self.game.num_players(), state.history()
        rounds = [history[start : start + players] for start in range(0, len(history), players)]
        lines = [
            self._describe_choices(round_, player, f"Round {number}: " if self.repeats else "")
            for number, round_ in enumerate(rounds, start=1)
            if len(round_) == players
        ]
        return "\n".join(lines) or "No choice has been made yet."

    def _describe_choices(self, actions: list[int], player: int, title: str) -> str:
        start = self.inner.new_initial_state()
        words = []
        for seat, action in enumerate(actions):
            chooser = f"player {seat}" if len(actions) != 2 else "the opponent"
            name = start.action_to_string(seat, action)
            words.append(f"{'you' if seat == player else chooser} chose {name}")
        # The own choice comes first.
        words.insert(0, words.pop(player))
        text = f"{title}{', '.join(words)}."
        return text if title else text[0].upper() + text[1:]

    def key(self, state: Any, player: int) -> str:
        # With its default `recall`, OpenSpiel's text of a repeated game has only the last round.
        return f"{self.view(state, player)}|{state.current_player()}" if self.repeats else super().key(state, player)
