"""Generic texts of an OpenSpiel game: rules, actions, observations, keys. A subclass replaces them for one game."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from mage_envs.games.openspiel.loading import sight
from mage_envs.games.openspiel.short_rules import PROSE
from mage_envs.text.words.spelling import WordsOfState, split_at_blanks

CHANCE = -1
"""Player id of chance in OpenSpiel."""
_UNSPOKEN = frozenset(
    {
        "egocentric",
        "egocentric_obs_tensor",
        "instances_file",
        "obs_type",
        "obstype",
        "observation_type",
        "plain_obs_tensor",
        "players",
        "rng_seed",
        "string_rep",
    }
)
"""Parameters that the rules omit, because they are technical or the rules state them in words."""


class Texts:
    """The texts of one game, derived from OpenSpiel's own texts.

    `game` is a `pyspiel.Game`, and `state` in every method is a state of that game.
    """

    unit = "points"

    def __init__(self, game: Any) -> None:
        # Imported here, so that the package can be imported without OpenSpiel.
        import pyspiel

        self.game = game
        kind = game.get_type()
        self.hidden: bool = kind.information != pyspiel.GameType.Information.PERFECT_INFORMATION
        self.zero_sum: bool = kind.utility in (pyspiel.GameType.Utility.ZERO_SUM, pyspiel.GameType.Utility.CONSTANT_SUM)
        self._has_state_string: bool = kind.provides_information_state_string

    @cached_property
    def short_name(self) -> str:
        """OpenSpiel's short name; for a converted game, the name of the simultaneous game."""
        # `convert_to_turn_based` wraps the simultaneous game and stores it as the parameter `game`.
        inner = self.game.get_parameters().get("game")
        return str(inner["name"]) if isinstance(inner, dict) else str(self.game.get_type().short_name)

    def rules(self) -> str:
        """Return the rules as prose for the prompt."""
        kind, players = self.game.get_type(), self.game.num_players()
        together = kind.long_name.startswith("Turn-based ")
        parts = [f"{kind.long_name.removeprefix('Turn-based ')}."]
        if self.short_name in PROSE:
            parts.append(PROSE[self.short_name])
        if parameters := self._parameters():
            parts.append(f"Settings: {parameters}.")
        if players > 1:
            parts.append(f"There are {players} players, numbered from 0.")
        if together:
            parts.append("All players choose at the same time: nobody sees another's choice before making their own.")
        elif self.hidden:
            parts.append("Not everything is shown to everybody: you see what your player knows.")
        low, high = self.game.min_utility(), self.game.max_utility()
        goal = (
            "a win counts 1, a draw 0, a loss -1"
            if (low, high) == (-1, 1) and self.zero_sum
            else (f"the points of a hand lie between {low:g} and {high:g}")
        )
        parts.append(f"Make your own result as high as you can; {goal}. An action is written exactly as it is listed.")
        return " ".join(parts)

    def _parameters(self) -> str:
        parameters = self.game.get_parameters()
        inner = parameters.get("game")
        shown = {k: v for k, v in (inner if isinstance(inner, dict) else parameters).items() if k != "name"}
        return ", ".join(
            f"{key}={value}" for key, value in sorted(shown.items()) if key not in _UNSPOKEN and value not in ("", None)
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
        return text.removeprefix(f"[P{player}]").removeprefix(f"player={player} move=").strip(", ")

    def unique(self, state: Any, player: int, actions: Sequence[int]) -> tuple[str, ...]:
        """Return the texts of the actions of one decision.

        If two texts are equal, or one is empty, OpenSpiel's number of the action follows the text.

        Args:
            state: State of the decision.
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
        return None

    def words(self) -> WordsOfState:
        """Return the function that splits `key` into words. It can be pickled."""
        return split_at_blanks

    def key(self, state: Any, player: int) -> str:
        """Return a key of the information of `player`."""
        # OpenSpiel's information state is exact. The fallback combines the visible text and the player to move.
        if self._has_state_string:
            return str(state.information_state_string(player))
        return f"{sight(self.game, state, player)}|{state.current_player()}"

    def observe(self, state: Any, player: int) -> str:
        """Return the view of `player`, followed by the seat and the player to move or the result."""
        return f"{self.view(state, player).rstrip()}\n{self.place(player)} {self.status(state, player)}"

    def view(self, state: Any, player: int) -> str:
        """Return the position as `player` may see it, without OpenSpiel's line on the player to move (see `status`)."""
        return sight(self.game, state, player).removeprefix(f"Current player: {int(state.current_player())}\n")

    def place(self, player: int) -> str:
        """Return the sentence that names the seat of `player`."""
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
        if self.game.num_players() == 2 and sorted(returns) in ([-1, 1], [0, 0]) and self.zero_sum:
            if returns[player] == 0:
                return "a draw"
            return "you won" if returns[player] > 0 else "you lost"
        own = f"your result is {returns[player]:g}"
        others = [f"player {index}'s {value:g}" for index, value in enumerate(returns) if index != player]
        return f"{own}, {', '.join(others)}" if others else own
