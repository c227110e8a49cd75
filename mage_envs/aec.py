"""PettingZoo's form of a game: an AEC environment in which every seat is open.

    from mage_envs.aec import kuhn_poker_v0

Like PettingZoo's own modules, the imported object has `env` and `raw_env`. Every registered game has one.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from pettingzoo import AECEnv
from pettingzoo.utils import wrappers

from mage_envs.core import IllegalAction, State
from mage_envs.drawing.screen import FPS, Screen
from mage_envs.hand import Hand, open_table
from mage_envs.random.streams import SEED_BITS, Streams
from mage_envs.registry import list_games, make_game
from mage_envs.spaces import FreeText

ObservationDict = dict[str, Any]


class TextGameAEC(AECEnv[str, ObservationDict, Any]):
    """One hand of a game between PettingZoo agents `player_0`, `player_1`, ...

    Observation: `text` and, if the game has a fixed action set, `action_mask` of shape (actions,). Action: an
    index into `action_names`, or the action text in free-text games. An illegal action, or one outside of the action
    space, ends the hand. Its player receives the game's worst return, the others 0.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "is_parallelizable": False, "render_fps": FPS}  # noqa: RUF012
    """Metadata of the class. An instance has the render modes of its game."""

    def __init__(self, game_name: str, render_mode: str | None = None, **game_options: Any) -> None:
        """Create an environment.

        Args:
            game_name: Name of a registered game.
            render_mode: None, `ansi`, or, if the game has pictures, `rgb_array` or `human`.
            **game_options: Options of the game.
        """
        super().__init__()
        self.game = make_game(game_name, **game_options)
        self.hand = Hand(self.game)
        """The current hand, in which all seats are open."""
        self._screen = Screen(self.game.spec, render_mode)
        self.metadata = {**self.metadata, **self._screen.metadata, "name": f"{game_name}_v0"}
        self.render_mode = render_mode
        self.possible_agents = [f"player_{seat}" for seat in range(self.game.spec.players)]
        self.action_names = self.game.spec.actions
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
        self.hand.begin_episode(Streams(int(self._rng.integers(2**SEED_BITS))))
        self.hand.deal(open_table(len(self.agents)))
        self._select()
        self._screen.show(self._state, self._seat())

    @property
    def _state(self) -> State:
        return self.hand.state

    def _select(self) -> None:
        player = self._state.player
        if player is not None:
            self.agent_selection = self.agents[player]
        # These entries are the facts that `Turn.from_info` needs, so registered policies can play a seat.
        self.infos = {
            agent: {
                "legal_actions": self._legal(seat),
                "information_state": self._state.information_state(seat),
                "seat": seat,
            }
            for seat, agent in enumerate(self.agents)
        }

    def _legal(self, seat: int) -> tuple[str, ...]:
        return self._state.legal_actions if self._state.player == seat else ()

    def observe(self, agent: str) -> ObservationDict:
        seat = self.possible_agents.index(agent)
        observation: ObservationDict = {"text": self._state.observation(seat)}
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
        # PettingZoo's order: the rewards since the agent's last step are used up when it steps again.
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        try:
            self.hand.play(self._text_of(agent, action))
        except IllegalAction:
            self.rewards[agent] = self.game.spec.min_return
            self.terminations = dict.fromkeys(self.agents, True)
        else:
            if self.hand.over:
                self.rewards = dict(zip(self.agents, self._state.returns, strict=True))
                self.terminations = dict.fromkeys(self.agents, True)
        self._select()
        self._accumulate_rewards()
        self._screen.show(self._state, self._seat())

    def _text_of(self, agent: str, action: Any) -> str:
        """Return the text of an action. Raises IllegalAction if the action is not in the agent's space."""
        # Python's index -1 is the last action, and a bool is a whole number: neither may become a move.
        if isinstance(action, bool | np.bool_) or not self.action_spaces[agent].contains(action):
            raise IllegalAction(str(action), self._state.legal_actions)
        return str(action) if self.action_names is None else self.action_names[int(action)]

    def _seat(self) -> int:
        """Return the seat of the mover, or after the end that of the last agent."""
        return self.possible_agents.index(self.agent_selection)

    def render(self) -> Any:
        """Return the mover's text (mode `ansi`) or image (`rgb_array`), or show the image in a window (`human`)."""
        if self.render_mode is None:
            gym.logger.warn("render() was called without a render mode; make the environment with render_mode='ansi'.")
            return None
        if self.render_mode == "ansi":
            return self._state.observation(self._seat())
        if self.render_mode == "rgb_array":
            return self._screen.image(self._state, self._seat())
        self._screen.show(self._state, self._seat())
        return None

    def close(self) -> None:
        """Close the window if one is open."""
        self._screen.close()


def env(game_name: str, render_mode: str | None = None, **game_options: Any) -> AECEnv[Any, Any, Any]:
    """Return an environment in PettingZoo's order-enforcing wrapper, like PettingZoo's own.

    Args:
        game_name: Name of a registered game.
        render_mode: As for `TextGameAEC`.
        **game_options: Options of the game.
    """
    return wrappers.OrderEnforcingWrapper(TextGameAEC(game_name, render_mode, **game_options))


class GameModule:
    """One game in the form of PettingZoo's modules: `env()` with the usual wrapper, `raw_env()` without it."""

    def __init__(self, game_name: str) -> None:
        self.env = partial(env, game_name)
        self.raw_env = partial(TextGameAEC, game_name)


def __getattr__(name: str) -> GameModule:
    """Return a registered game by its module name: `kuhn_poker_v0` is `KuhnPoker`."""
    names = {f"{_snake(game)}_v0": game for game in list_games()}
    if name not in names:
        raise AttributeError(f"mage_envs.aec has no {name!r}. Its games are {', '.join(names)}.")
    return GameModule(names[name])


def _snake(name: str) -> str:
    """Return a name in snake case: `kuhn_poker`, `tic_tac_toe`, and `alfworld` for `ALFWorld`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
