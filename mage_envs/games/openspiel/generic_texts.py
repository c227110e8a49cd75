"""Generic texts of an OpenSpiel game: rules, actions, observations, keys. A subclass replaces them for one game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mage_envs.games.openspiel.worded import TECHNICAL, apply_edits, parameters_of, wording_of
from mage_envs.spiel.loading import sight, without_escapes
from mage_envs.spiel.wrappers import Unwrapped
from mage_envs.text.words.spelling import WordsOfState, split_at_blanks

CHANCE = -1
"""Player id of chance in OpenSpiel."""


class Texts:
    """The texts of one game, derived from OpenSpiel's own texts.

    `game` is a `pyspiel.Game`, and `state` in every method is a state of that game.
    """

    unit = "points"
    _actions: tuple[str, ...] | None = None
    """All actions of the game in a fixed order, or None if they are not known."""

    def __init__(self, game: Any, unwrapped: Unwrapped) -> None:
        """Create the texts.

        Args:
            game: Game that is played, with turns.
            unwrapped: The game without its wrappers and before its conversion to turns.
        """
        # Imported here, so that the package can be imported without OpenSpiel.
        import pyspiel

        self.game = game
        self.inner, self._wrapped, self.repeats = unwrapped
        self.parameters = parameters_of(self.inner)
        self.wording = wording_of(self.inner)
        self.worded = self.wording is not None
        """True if `rules` explains the game, False if it has only the game's name and settings."""
        kind, inner = game.get_type(), self.inner.get_type()
        if self.wording is not None:
            self.unit = self.wording.unit
        self.hidden: bool = kind.information != pyspiel.GameType.Information.PERFECT_INFORMATION
        self.zero_sum: bool = kind.utility in (pyspiel.GameType.Utility.ZERO_SUM, pyspiel.GameType.Utility.CONSTANT_SUM)
        self.together: bool = inner.dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS
        """True if the players choose at the same time."""
        self._has_state_string: bool = kind.provides_information_state_string

    def introduction(self) -> str:
        """Return the rules for the prompt, after the sentences of the wrappers."""
        return " ".join([*self._wrapped, self.rules()])

    def rules(self) -> str:
        """Return the rules of the game inside all wrappers."""
        wording, players = self.wording, self.inner.num_players()
        name = self.inner.get_type().long_name
        if wording is not None and wording.name:
            name = wording.name
        parts = [name if name.endswith("!") else f"{name}."]
        if wording is not None:
            parts.append(wording.rules)
        elif parameters := self._settings():
            parts.append(f"Settings: {parameters}.")
        if players > 1 and wording is None:
            parts.append(f"There are {players} players, numbered from 0.")
        if self.together:
            parts.append("All players choose at the same time, without seeing each other's choice.")
        elif self.hidden and wording is None:
            parts.append("Part of the position is hidden: you see what your player knows.")
        parts.append(self._goal())
        if wording is None:
            parts.append("An action is written exactly as it is listed.")
        else:
            parts += [wording.action, wording.symbols]
        return " ".join(part for part in parts if part)

    def _goal(self) -> str:
        if self.wording is not None and self.wording.returns:
            return self.wording.returns
        low, high = self.inner.min_utility(), self.inner.max_utility()
        if (low, high) == (-1, 1) and self.zero_sum:
            return "A win counts 1 point, a draw 0 and a loss -1."
        return f"Score as many {self.unit} as you can; a hand pays between {low:g} and {high:g}."

    def _settings(self) -> str:
        return ", ".join(
            f"{key}={value}"
            for key, value in sorted(self.parameters.items())
            if key not in {*TECHNICAL, "players"} and value not in ("", None)
        )

    def action(self, state: Any, player: int, action: int) -> str:
        """Return the text of one action. `unique` makes the texts of one decision differ.

        Args:
            state: State in which the action is legal.
            player: Player to move, or `CHANCE`.
            action: OpenSpiel's number of the action.
        """
        # Some games put the player in front of each action. The prompt already names the player.
        text = str(state.action_to_string(player, action))
        text = text.removeprefix(f"[P{player}]").removeprefix(f"player={player} move=").strip(", ")
        # The edits are for the players' actions. An outcome of chance may look like one of them.
        return apply_edits(text, self.wording.action_edits) if self.wording is not None and player >= 0 else text

    def unique(self, state: Any, player: int, actions: Sequence[int]) -> tuple[str, ...]:
        """Return the texts of the actions of one decision.

        If two texts are equal, or one is empty, OpenSpiel's number of the action follows the text.

        Args:
            player: Player to move, or `CHANCE`.
            actions: OpenSpiel's numbers of the actions.
        """
        texts = [self.action(state, player, action) for action in actions]
        if len(set(texts)) == len(texts) and all(texts):
            return tuple(texts)
        repeated = {text for text in texts if not text or texts.count(text) > 1}
        return tuple(f"{t} [{a}]".strip() if t in repeated else t for t, a in zip(texts, actions, strict=True))

    def actions(self) -> tuple[str, ...] | None:
        """Return all actions of the game in a fixed order, or None if they are not known."""
        return self._actions

    def words(self) -> WordsOfState:
        """Return the function that splits `key` into words. It can be pickled."""
        return split_at_blanks

    def neutral(self) -> Mapping[str, str]:
        """Return the words for the style `neutral`, as `GameSpec.neutral`."""
        return {}

    def key(self, state: Any, player: int) -> str:
        """Return a key of the information of `player`."""
        # OpenSpiel's information state is exact. The fallback combines the visible text and the player to move.
        if self._has_state_string:
            return without_escapes(state.information_state_string(player))
        return f"{sight(self.game, state, player)}|{state.current_player()}"

    def observe(self, state: Any, player: int) -> str:
        """Return the view of `player`, followed by the seat and the player to move or the result."""
        last_line = " ".join(filter(None, (self.place(player), self.status(state, player))))
        return "\n".join(filter(None, (self.view(state, player).rstrip(), last_line)))

    def view(self, state: Any, player: int) -> str:
        """Return the position as `player` may see it, without OpenSpiel's line on the player to move (see `status`)."""
        text = sight(self.game, state, player, self.wording.view if self.wording is not None else "")
        text = text.removeprefix(f"Current player: {int(state.current_player())}\n")
        return text if self.wording is None else apply_edits(text, self.wording.view_edits)

    def place(self, player: int) -> str:
        """Return the sentence that names the seat of `player`."""
        if self.game.num_players() == 1:
            return ""
        if self.wording is not None and self.wording.seats:
            return f"You are {self.wording.seats[player]}."
        if self.worded and self.game.num_players() == 2 and not self.together:
            return f"You act {('first', 'second')[player]}."
        return f"You are player {player}."

    def status(self, state: Any, player: int) -> str:
        """Return the sentence on the player to move, or on the result."""
        if state.is_terminal():
            return f"The game is over: {self.result(state, player)}."
        mover = state.current_player()
        if mover == player:
            return "Your move."
        return "The opponent is to move." if self.game.num_players() == 2 else f"Player {mover} is to move."

    def result(self, state: Any, player: int) -> str:
        """Return the result for `player` in words."""
        returns = state.returns()
        # A return of 1 is a win only if no other return is possible. In poker it is one chip.
        decided = self.zero_sum and (self.game.min_utility(), self.game.max_utility()) == (-1, 1)
        if self.game.num_players() == 2 and decided and abs(returns[player]) in (0, 1):
            if returns[player] == 0:
                return "a draw"
            return "you won" if returns[player] > 0 else "you lost"
        unit = self.unit.removesuffix("s") if returns[player] == 1 else self.unit
        own_result = f"your result is {returns[player]:g} {unit}"
        others = [
            f"{'the opponent' if len(returns) == 2 else f'player {index}'}'s {value:g}"
            for index, value in enumerate(returns)
            if index != player
        ]
        return f"{own_result}, {', '.join(others)}" if others else own_result
