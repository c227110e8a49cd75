"""An agent that plays meta-episodes for people to watch, with the exact posterior and regret at each decision."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from mage_envs.benchmarks.evaluation.run.agents import Agent, SavedModelAgent
from mage_envs.benchmarks.evaluation.suites.environments import game_of, make_envs
from mage_envs.benchmarks.evaluation.suites.panels import weights_of
from mage_envs.benchmarks.exact.regret import check_deals
from mage_envs.benchmarks.play.end_table import EndTable, ExactSetting, end_table
from mage_envs.benchmarks.play.remarks import LEAST_COST
from mage_envs.benchmarks.play.sitting import HANDS, Sitting
from mage_envs.core import Task
from mage_envs.registry import settings_of
from mage_envs.text.visible import visible


class WatchedDecision(NamedTuple):
    """One answer of the agent, with everything that a visitor sees of it."""

    heading: str
    phase: str
    prompt: str
    answer: str
    action: str
    """Action that was played; empty for a note or an invalid answer."""
    posterior: tuple[tuple[str, float], ...] = ()
    """Probability of each opponent of the pool before the answer; empty without exact values."""
    regret: float | None = None
    """Loss in the rest of the hand."""
    learns: bool = False
    """True if the loss in this hand pays, because of what the agent learns for later hands."""


class AgentScene(NamedTuple):
    """State of the watched meta-episode."""

    title: str
    unit: str
    decisions: tuple[WatchedDecision, ...]
    """The latest answer first."""
    happened: tuple[str, ...]
    opponent: str
    """Name of the opponent; empty until the end."""
    table: EndTable | None
    missing: str
    """Reason why there are no exact values."""


class WatchedAgent:
    """One agent and its current meta-episode, which all visitors watch and advance."""

    def __init__(self, agent: Agent, env_id: str | None, options: Mapping[str, Any], rng: np.random.Generator) -> None:
        """Make the environment and the agent's generator, and start a meta-episode.

        Args:
            env_id: Id of the environment (default: that of a saved model's training, else Kuhn Poker's).
            options: Options of the environment, in place of those of a saved model's training.
        """
        settings = agent.settings if isinstance(agent, SavedModelAgent) else None
        env_id = env_id or (settings.env_id if settings is not None and settings.env_id else "mage/KuhnPoker-Meta-v0")
        kwargs = {**(settings.env_kwargs if settings is not None else {"hands_per_episode": HANDS}), **options}
        [self._env] = make_envs(env_id, kwargs)
        game = game_of(env_id, kwargs)
        if game.spec.players != 2:
            raise ValueError(f"{env_id} has no opponent, so there is nothing to adapt to. Use a game of two players.")
        pool = weights_of(kwargs.get("opponent") or settings_of(game.spec.name).opponent)
        missing = ""
        try:
            check_deals(env_id, kwargs)
        except ValueError as error:
            missing = str(error).rstrip(".")
        self._setting, self._env_id, self._rng = ExactSetting(game, pool, missing), env_id, rng
        self._agent, self._generator = agent, agent.generator(game)
        self._lock = Lock()
        self._start()

    def advance(self, until: str) -> bool:
        """Give the `next` answer, play to the `end`, or start a `new` meta-episode. Return False if it is busy."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if until == "new":
                self._start()
            while until != "new" and not self._sitting.over:
                [completion] = self._generator.generate([self._sitting.prompt])
                heading, prompt = self._sitting.heading, self._sitting.prompt
                self._sitting.answer(completion)
                step = self._sitting.trajectory.steps[-1]
                self._decisions.append(
                    WatchedDecision(
                        heading=heading,
                        phase=step.phase,
                        prompt=visible(prompt.messages[-1].content),
                        answer=visible(completion.text),
                        action=(step.action or "") if step.phase == "play" else "",
                    )
                )
                self._show()
                if until == "next":
                    break
        finally:
            self._lock.release()
        return True

    def _start(self) -> None:
        self._sitting = Sitting(self._env, Task(self._env_id, seed=int(self._rng.integers(2**31))))
        self._decisions: list[WatchedDecision] = []
        self._show()

    def _show(self) -> None:
        sitting = self._sitting
        meta_episode = self._setting.judge(sitting) if self._decisions else None
        judged_by_rest = self._setting.judge_rest(sitting) if meta_episode is not None else None
        # An invalid answer is not a decision of the game, so it has neither a posterior nor a regret.
        exact = (
            []
            if meta_episode is None
            else [pair for hand in meta_episode.hands for pair in zip(hand.beliefs, hand.regrets)]
        )
        far = (
            []
            if judged_by_rest is None
            else [cost for hand in judged_by_rest.hands for _, cost in zip(hand.beliefs, hand.regrets)]
        )
        values = zip_longest(exact, far)
        decisions = []
        for decision in self._decisions:
            if decision.action and exact:
                (beliefs, regret), regret_by_rest = next(values)
                learns = regret_by_rest is not None and regret - regret_by_rest >= LEAST_COST
                decision = decision._replace(
                    posterior=tuple(zip(self._setting.pool, beliefs)), regret=regret, learns=learns
                )
            decisions.append(decision)
        game = self._setting.game
        title_suffix = "" if game.title == game.spec.name else f", {game.title}"
        # The scene is replaced as a whole, so that readers need no lock.
        self.scene = AgentScene(
            title=f"{self._agent.name} in {self._env_id}{title_suffix}",
            unit=sitting.spec.unit,
            decisions=tuple(reversed(decisions)),
            happened=tuple(sitting.happened),
            opponent=sitting.trajectory.opponent if sitting.over else "",
            table=end_table(self._setting, [sitting], self._agent.name) if sitting.over else None,
            missing=self._setting.missing,
        )
