"""Opponents of Kuhn Poker, games and an environment with one defect each, as a user may write them by mistake."""

from __future__ import annotations

import ctypes
import os
import random
import time
from copy import deepcopy
from dataclasses import dataclass

import gymnasium as gym

from mage_envs import FreeText, Game, GameSpec, IllegalAction, State
from mage_envs.env import TextGameEnv
from mage_envs.opponents import SeatedOpponents


class Sound:
    """A sound opponent. Each defect changes one method."""

    def reset(self, rng):
        self.rng = rng

    def act(self, turn):
        return turn.legal_actions[int(self.rng.integers(len(turn.legal_actions)))]


class Raises(Sound):
    def act(self, turn):
        return {}[turn.observation]


class Exits(Sound):
    def act(self, turn):
        raise SystemExit(3)


class Leaves(Sound):
    def act(self, turn):
        os._exit(3)


class Crashes(Sound):
    def act(self, turn):
        return ctypes.string_at(0)


class Loops(Sound):
    def act(self, turn):
        sum(iter(int, 1))  # for ever, and in one line: a finding names the line that it is at


class Sleeps(Sound):
    def reset(self, rng):
        time.sleep(10_000)


class Unkeyed(Sound):
    def act(self, turn):
        return random.choice(turn.legal_actions)


class Hashes(Sound):
    def act(self, turn):
        return min(turn.legal_actions, key=lambda action: hash(action + turn.observation))


class Remembers(Sound):
    hands = 0

    def act(self, turn):
        Remembers.hands += 1
        return turn.legal_actions[Remembers.hands // 3 % 2]


class Shares(Sound):
    turns = 0

    def reset(self, rng):
        Shares.turns = 0

    def on_meta_episode_start(self):
        Shares.turns = 0

    def act(self, turn):
        Shares.turns += 1
        return turn.legal_actions[Shares.turns % 2]


class Uncopied(Sound):
    def __deepcopy__(self, memo):
        return self


class CopiesForEver(Sound):
    def __deepcopy__(self, memo):
        time.sleep(10_000)


class PicklesForEver(Sound):
    def __deepcopy__(self, memo):
        copy = PicklesForEver()
        copy.rng = deepcopy(self.rng, memo)
        return copy

    def __reduce__(self):
        time.sleep(10_000)


class Unpickled(Sound):
    def __init__(self):
        self.choose = lambda turn: turn.legal_actions[0]

    def act(self, turn):
        return self.choose(turn)


class Keeps(Sound):
    observations: list = []  # noqa: RUF012

    def act(self, turn):
        Keeps.observations.append([turn.observation] * 50)
        return turn.legal_actions[0]


@dataclass(frozen=True)
class Number(State):
    """Say a number; that is the return."""

    number: float | None = None

    @property
    def player(self):
        return 0 if self.number is None else None

    @property
    def legal_actions(self):
        return ("1", "2") if self.number is None else ()

    @property
    def returns(self):
        return (0.0 if self.number is None else self.read(self.number),)

    def read(self, number):
        return number / 2

    def observation(self, seat):
        return "Say 1 or 2."

    def after(self, action):
        if action not in self.legal_actions:
            raise IllegalAction(action, self.legal_actions)
        return type(self)(float(action))


class NotANumber(Number):
    def read(self, number):
        return float("nan")


class TooMuch(Number):
    def read(self, number):
        return number * 5


class Trusting(Number):
    def after(self, action):
        if not action.strip().isdigit():
            raise IllegalAction(action, self.legal_actions)
        return type(self)(min(int(action), 2))


class SayNumber(Game):
    """A hand of one of them."""

    def __init__(self, start):
        self.spec = GameSpec(name="SayNumber", rules="Say 1 or 2.", players=1, max_turns=9)
        self.start = start

    def initial_state(self, rng):
        return self.start


def make_say_number(kind):
    game = SayNumber(
        {state_type.__name__: state_type for state_type in (Number, NotANumber, TooMuch, Trusting)}[kind]()
    )
    return TextGameEnv(game, SeatedOpponents(None, game))


gym.register("planted/SayNumber-v0", entry_point=make_say_number)


class Endless(gym.Env):
    """Never over, and silent; `rows` of a text that is none."""

    observation_space = FreeText()
    action_space = FreeText()

    def __init__(self, says="Go on."):
        self.says = says

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.says, {}

    def step(self, action):
        return self.says, 0.0, False, False, {}


gym.register("planted/Endless-v0", entry_point=Endless)
