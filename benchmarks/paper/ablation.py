"""The ablations of the paper's section 4.4, and the same in other games: their trainings and panels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mage_envs.benchmarks.sweeps.plan import Fields, SweepRun, flags, seeds_of
from mage_envs.registry import load_game
from mage_envs.trainer.config.presets import ABLATION_PRESETS, ABLATIONS, PRESETS

PANELS: Mapping[str, tuple[str, ...]] = {
    "ALFWorld": ("paper-alfworld-seen",),
    "WebShop": ("paper-webshop",),
    "TicTacToe": ("paper-tictactoe-mcts100", "paper-tictactoe-mcts1000"),
    "KuhnPoker": ("paper-kuhn-cfr", "paper-kuhn-cfr-second"),
    "SokobanControls": ("controls-related-128",),
    "Encounters": ("encounters-related-128",),
}
"""Game to the panels on which its ablations are evaluated, those of the paper where it has any."""
OWN_PANELS: Mapping[str, tuple[str, ...]] = {"TicTacToe": ("tictactoe-paper-128",)}
"""The same for ablations that the paper did not run."""
ROLLOUTS: Mapping[str, int] = {"words": 50, "tiny": 2}
"""Default rollouts per training of a small model. With them, the ten settings of 4.4.2 with three seeds take less than
a quarter of an hour on two cores."""
_ALL: Fields = {"log_transcripts": 0}
_SMALL: Fields = {
    "advantage": "gigpo",
    "advantage_norm": "mean",
    "credit": "episode",
    "groups_per_rollout": 8,
    "beta": 0.0,
    "use_cpu": True,
    "save_strategy": "no",
}
"""Settings for a small model that replace the presets' settings for the 4B model."""
_TINY: Fields = {
    "groups_per_rollout": 1,
    "num_generations": 4,
    "max_completion_length": 8,
}
"""Further settings for `tiny`. Its random text is never an action, so every meta-episode has its maximum length."""


def trial_fields() -> dict[str, Any]:
    """Return the fields of a trial of any preset: one rollout of a random model on this CPU."""
    algorithm = {"advantage", "advantage_norm", "credit"}
    small = {name: value for name, value in _SMALL.items() if name not in algorithm}
    return {"model": "tiny", **_ALL, **small, **_TINY, "max_rollouts": 1, "updates_per_rollout": 1}


def panels_of(section: str, preset: str) -> tuple[str, ...]:
    """Return the panels on which a preset of an ablation is evaluated."""
    game = _game_of(preset)
    return PANELS[game] if ABLATIONS[section].suffix else OWN_PANELS.get(game, PANELS[game])


def _game_of(preset: str) -> str:
    env_id: str = PRESETS[preset]["env_id"]
    return env_id.removeprefix("mage/").removesuffix("-Meta-v0")


def ablation_runs(section: str, model: str, seeds: int, rollouts: int | None) -> list[SweepRun]:
    """Return the trainings of an ablation: each of its presets once per seed.

    Args:
        section: Key of `ABLATIONS`.
        model: `words`, `tiny` or the folder of a model.
        rollouts: Rollouts per training, or None for the default of the model or the preset.

    Raises:
        ValueError: If the model cannot play a game of the ablation.
    """
    # Later settings take precedence: those for `tiny` replace those for all small models.
    fields = {"model": model, **_ALL, **(_SMALL if model in ROLLOUTS else {}), **(_TINY if model == "tiny" else {})}
    # A model of the user's own has no default here and keeps the preset's number of rollouts.
    length = rollouts if rollouts is not None else ROLLOUTS.get(model)
    if length is not None:
        fields["max_rollouts"] = length
    runs = []
    for name, preset in ABLATION_PRESETS[section].items():
        if model == "words" and not load_game(_game_of(preset)).spec.actions:
            raise ValueError(
                f"--model words plays games with a fixed set of actions, which {_game_of(preset)} has not. Use the "
                "folder of a language model, --model tiny for a trial, or tictactoe-returns."
            )
        words = ("--preset", preset, *flags(fields))
        panels = panels_of(section, preset)
        if model == "tiny":
            panels = tuple(f"{panel.removesuffix('-128')}-16" for panel in panels)
        runs += [SweepRun(name, seed, words, panels=panels) for seed in seeds_of(seeds)]
    return runs
