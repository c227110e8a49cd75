"""Settings of a tournament, which determine its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

from mage_envs.cli.game_options import game_with
from mage_envs.core import Game
from mage_envs.loading.imports import load_modules, user_modules
from mage_envs.opponents import make_opponent


@dataclass(frozen=True)
class Settings:
    """Game, policies and options of a tournament. The constructor raises ValueError if they are not valid."""

    game: str
    policies: tuple[str, ...]
    """Names of policies for `make_opponent`, without duplicates."""
    games: int = 200
    """Matches per pairing. Each deal is two matches with the seats swapped."""
    episodes: int = 1
    """Hands per match. A match is a meta-episode with fixed seats, so that policies can learn during it."""
    seed: int = 0
    game_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Options of the game as JSON values."""
    exact: bool = True
    """True if exact values are computed for pairings of exact policies in games whose tree can be enumerated."""
    imports: tuple[str, ...] = field(default_factory=user_modules)
    """Modules that register the game or the policies. Worker processes import them too."""

    def __post_init__(self) -> None:
        # A policy `module:Class` names its module itself. Whether this process has imported it already must not change
        # the stored settings.
        policy_modules = {name.partition(":")[0] for name in self.policies if ":" in name}
        object.__setattr__(self, "imports", tuple(module for module in self.imports if module not in policy_modules))
        doubled = sorted({name for name in self.policies if self.policies.count(name) > 1})
        if doubled:
            raise ValueError(f"Policy {doubled[0]!r} is named twice. Name it once; it plays itself anyway.")
        if len(self.policies) < 2:
            raise ValueError(f"A tournament needs at least two policies, got {', '.join(self.policies) or 'none'}.")
        if self.games < 2 or self.games % 2:
            raise ValueError(f"games={self.games} must be even and at least 2, because each deal is two matches.")
        if self.episodes < 1:
            raise ValueError(f"episodes={self.episodes} must be at least 1.")
        if self.seed < 0:
            raise ValueError(f"seed={self.seed} must not be negative.")

    @property
    def deals(self) -> int:
        """Number of deals per pairing."""
        return self.games // 2

    def make_game(self) -> Game:
        """Return a new game after importing the modules that register it.

        Raises:
            ValueError: If the game does not have one of the options, or if it is not a two-player game.
        """
        load_modules(self.imports)
        game = game_with(self.game, self.game_kwargs)
        if game.spec.players != 2:
            players = "one player" if game.spec.players == 1 else f"{game.spec.players} players"
            raise ValueError(f"A tournament requires a two-player game, and {game.title} has {players}.")
        return game

    def check(self) -> None:
        """Make the game and each policy once. Raise ValueError if a policy does not fit the game."""
        game = self.make_game()
        for name in self.policies:
            try:
                make_opponent(name, game)
            # A policy for another game or with other arguments; the command reports a ValueError as one line.
            except TypeError as error:
                raise ValueError(str(error)) from error

    def pairings(self) -> list[tuple[str, str]]:
        """Return all pairs of names, self-play included. Each pair is in alphabetical order."""
        # Pairings of a policy that is appended later are last, so that earlier pairings keep their place.
        return [
            (min(name, earlier_name), max(name, earlier_name))
            for index, name in enumerate(self.policies)
            for earlier_name in self.policies[: index + 1]
        ]

    def rules(self) -> dict[str, Any]:
        """Return the settings that a single pairing depends on: all but the list of policies and the imports."""
        # OpenSpiel's version counts, because its games and solvers determine the returns.
        fields = asdict(self) | {"game_kwargs": dict(self.game_kwargs), "open_spiel": version("open_spiel")}
        del fields["policies"], fields["imports"]
        return fields
