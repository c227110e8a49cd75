"""The PettingZoo form of a game: every seat open, as an AEC environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from pettingzoo import AECEnv
from pettingzoo.utils import wrappers

from mage_envs.core import IllegalAction
from mage_envs.drawing.screen import FPS, Screen
from mage_envs.registry import make_game
from mage_envs.spaces import FreeText

ObservationDict = dict[str, Any]


class TextGameAEC(AECEnv[str, ObservationDict, Any]):
    """One hand of a game between PettingZoo agents `player_0`, `player_1`, ...

    Observation: `text` and, for games with a fixed action set, `action_mask` of shape (actions,). Action: an
    index into `action_names`, or the action text in free-text games. An illegal action ends the hand: its player
    gets the game's worst return, the others 0.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "is_parallelizable": False, "render_fps": FPS}  # noqa: RUF012
    """The class's; an instance has its game's modes."""

    def __init__(self, game_name: str, render_mode: str | None = None, **game_options: Any) -> None:
        super().__init__()
        self.game = make_game(game_name, **game_options)
        self._screen = Screen(self.game, render_mode)
        self.metadata = {**self.metadata, **self._screen.metadata, "name": f"{game_name}_v0"}
        self.render_mode = render_mode
        self.possible_agents = [f"player_{seat}" for seat in range(self.game.num_players)]
        self.action_names = self.game.actions()
        self._index = {name: index for index, name in enumerate(self.action_names or ())}
        self.action_spaces: dict[str, gym.Space[Any]] = {}
        self.observation_spaces: dict[str, gym.Space[Any]] = {}
        for agent in self.possible_agents:
            spaces: dict[str, gym.Space[Any]] = {"text": FreeText()}
            self.action_spaces[agent] = FreeText()
            if self.action_names is not None:
                count = len(self.action_names)
                spaces["action_mask"] = gym.spaces.Box(0, 1, (count,), np.int8)
                self.action_spaces[agent] = gym.spaces.Discrete(count)
            self.observation_spaces[agent] = gym.spaces.Dict(spaces)
        self._rng = np.random.default_rng()

    def observation_space(self, agent: str) -> gym.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gym.Space[Any]:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self.game.reset(self._rng)
        self._select()
        self._screen.show(self._seat())

    def _select(self) -> None:
        player = self.game.current_player()
        if player is not None:
            self.agent_selection = self.agents[player]
        self.infos = {agent: {"legal_actions": self._legal(seat)} for seat, agent in enumerate(self.agents)}

    def _legal(self, seat: int) -> tuple[str, ...]:
        return self.game.legal_actions() if self.game.current_player() == seat else ()

    def observe(self, agent: str) -> ObservationDict:
        seat = self.possible_agents.index(agent)
        observation: ObservationDict = {"text": self.game.observe(seat)}
        if self.action_names is not None:
            mask = np.zeros(len(self.action_names), np.int8)
            mask[[self._index[name] for name in self._legal(seat)]] = 1
            observation["action_mask"] = mask
        return observation

    def step(self, action: Any) -> None:
        if self.terminations[self.agent_selection] or self.truncations[self.agent_selection]:
            self._was_dead_step(action)
            return
        agent = self.agent_selection
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        try:
            self.game.apply(action if self.action_names is None else self.action_names[int(action)])
        except (IllegalAction, IndexError):
            self.rewards[agent] = self.game.min_return
            self.terminations = dict.fromkeys(self.agents, True)
        else:
            if self.game.current_player() is None:
                self.rewards = dict(zip(self.agents, self.game.returns(), strict=True))
                self.terminations = dict.fromkeys(self.agents, True)
        self._select()
        self._accumulate_rewards()
        self._screen.show(self._seat())

    def _seat(self) -> int:
        """The mover's; after the end, that of the last agent to step."""
        return self.possible_agents.index(self.agent_selection)

    def render(self) -> Any:
        """What the mover may see. Mode `ansi`: the text; `rgb_array`: an image; `human`: shows that in a window."""
        if self.render_mode is None:
            gym.logger.warn("render() was called without a render mode; make the environment with render_mode='ansi'.")
            return None
        if self.render_mode == "ansi":
            return self.game.observe(self._seat())
        if self.render_mode == "rgb_array":
            return self._screen.image(self._seat())
        self._screen.show(self._seat())
        return None

    def close(self) -> None:
        """Closes the window, if one is open."""
        self._screen.close()


def env(game_name: str, render_mode: str | None = None, **game_options: Any) -> AECEnv[Any, Any, Any]:
    """The environment as PettingZoo's own are given: with its order-enforcing wrapper."""
    return wrappers.OrderEnforcingWrapper(TextGameAEC(game_name, render_mode, **game_options))
