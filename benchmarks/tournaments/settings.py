"""What a tournament is a function of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

from mage_envs.core import Game
from mage_envs.imports import imported, load_modules
from mage_envs.terminal.json_options import game_with
from opponents import make_opponent


@dataclass(frozen=True)
class Settings:
    """Everything that the results depend on; raises ValueError for what makes no tournament."""

    game: str
    policies: tuple[str, ...]
    """Names as `make_opponent` takes them, each once."""
    games: int = 200
    """Matches per pairing, half of them with the seats swapped: each deal is played from both seats."""
    episodes: int = 1
    """Hands per match: a meta-episode with fixed seats, so that policies that learn can learn."""
    seed: int = 0
    game_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Options of the game (JSON values)."""
    exact: bool = True
    """Whether pairings of exactly known policies also get their exact values, where the game's tree is at hand."""
    imports: tuple[str, ...] = field(default_factory=imported)
    """Modules that register the game or the policies; worker processes import them too."""

    def __post_init__(self) -> None:
        doubled = sorted({name for name in self.policies if self.policies.count(name) > 1})
        if doubled:
            raise ValueError(f"Policy {doubled[0]!r} is named twice; a policy meets itself in any case.")
        if len(self.policies) < 2:
            raise ValueError(f"A tournament needs at least two policies, got {', '.join(self.policies) or 'none'}.")
        if self.games < 2 or self.games % 2:
            raise ValueError(f"games={self.games} must be even and at least 2: half of them have the seats swapped.")
        if self.episodes < 1:
            raise ValueError(f"episodes={self.episodes} must be at least 1.")
        if self.seed < 0:
            raise ValueError(f"seed={self.seed} must not be negative.")

    @property
    def deals(self) -> int:
        """Deals per pairing."""
        return self.games // 2

    def make_game(self) -> Game:
        """The game, new, what registers it being imported.

        Raises ValueError for options that it does not have, and unless two play it.
        """
        load_modules(self.imports)
        game = game_with(self.game, self.game_kwargs)
        if game.facts.players != 2:
            players = "one player" if game.facts.players == 1 else f"{game.facts.players} players"
            raise ValueError(f"A tournament is for two-player games, and {game.facts.name} has {players}.")
        return game

    def check(self) -> None:
        """Makes the game and each policy once; raises what makes one of them impossible."""
        game = self.make_game()
        for name in self.policies:
            try:
                make_opponent(name, game)
            except TypeError as error:
                raise ValueError(str(error)) from error

    def pairings(self) -> list[tuple[str, str]]:
        """All pairs of names, each in alphabetic order, self-play included; those of the last policy come last."""
        return [
            (min(name, other), max(name, other))
            for place, name in enumerate(self.policies)
            for other in self.policies[: place + 1]
        ]

    def rules(self) -> dict[str, Any]:
        """All that a single pairing depends on: everything but the list of policies and where they come from."""
        fields = asdict(self) | {"game_kwargs": dict(self.game_kwargs), "open_spiel": version("open_spiel")}
        del fields["policies"], fields["imports"]
        return fields
