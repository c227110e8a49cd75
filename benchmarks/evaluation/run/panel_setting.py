"""The setting that the options of a command select: a named panel, or opponents and seeds of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mage_envs.benchmarks.evaluation.run.agents import Agent, SavedModelAgent, saved_options
from mage_envs.benchmarks.evaluation.run.options import ROWS, PanelOptions
from mage_envs.benchmarks.evaluation.suites.environments import game_of, seats_of
from mage_envs.benchmarks.evaluation.suites.panels import Panel, full_name, named_panel, weights_of
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.core import Game
from mage_envs.opponents.registry import split_names, without_servers
from mage_envs.registry import settings_of


def setting_from(options: PanelOptions, agent: Agent) -> Setting:
    """Return the setting that the options select. The options of a saved model are the defaults."""
    if options.panel is not None and options.opponents is not None:
        raise ValueError("--panel fixes its opponents. Remove --panel or --opponents.")
    model_options = saved_options(agent)
    game_options = options.game_options or {}
    # These two have a flag of their own.
    flags = {"num_episodes": options.episodes, "memory": options.memory}
    flags = {name: value for name, value in flags.items() if value is not None}
    if doubled := sorted(set(game_options) & set(flags)):
        raise ValueError(f"{doubled[0]} is set by --game-option and by its flag. Remove one of them.")
    user_options = {**game_options, **flags}
    if options.panel is not None:
        chosen_panel = named_panel(options.panel)
        if options.rows is not None or options.seed is not None:
            raise ValueError("--panel fixes its rows and its seed. Remove --rows and --seed, or use --opponents.")
        env_id = options.env or (agent.settings.env_id if isinstance(agent, SavedModelAgent) else chosen_panel.env_id)
        if env_id != chosen_panel.env_id:
            raise ValueError(f"Panel {options.panel!r} is played in {chosen_panel.env_id}, not in {env_id}.")
        # The panel's options win over those of the model's training. The user's own ones are checked by `Setting`.
        return Setting(
            chosen_panel, full_name(options.panel), {**chosen_panel.filter_options(model_options), **user_options}
        )
    return _own_setting(options, agent, {**model_options, **user_options})


def _own_setting(options: PanelOptions, agent: Agent, env_kwargs: Mapping[str, Any]) -> Setting:
    """Return a setting with the given opponents, rows and seed instead of a named panel."""
    env_id = options.env
    if env_id is None and isinstance(agent, SavedModelAgent):
        env_id = agent.settings.env_id
    if env_id is None:
        raise ValueError("Nothing to play. Use --env mage/KuhnPoker-Meta-v0 (or another -Meta-v0 id), or --panel NAME.")
    rows = ROWS if options.rows is None else options.rows
    seed = options.seed or 0
    seats = tuple(seat for seat in seats_of(env_id, env_kwargs) if seat is not None)
    weights = _opponents(options.opponents, game_of(env_id, env_kwargs)) if seats else ""
    panel = Panel(env_id=env_id, about="", seed=seed, rows_per_cell=rows, opponents=weights, seats=seats, size=0)
    if rows < 1:
        raise ValueError(f"A panel needs at least one row per cell, got --rows {rows}.")
    return Setting(panel, f"seed {seed}", env_kwargs)


def _opponents(text: str | None, game: Game) -> dict[str, float]:
    """Return the opponents and their weights; the game's default opponents if `text` is None."""
    if text is None:
        return weights_of(settings_of(game.spec.name).opponent)
    names = without_servers(split_names(text))
    if len(names) == 1 and names[0].startswith("pool:"):
        return weights_of(names[0])
    if len(set(names)) < len(names):
        raise ValueError(f"The opponents of a panel must differ, got --opponents {text}.")
    return dict.fromkeys(names, 1.0)
