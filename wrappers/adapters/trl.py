"""TRL 1.16: an `environment_factory` with one tool, and the data set of a panel.

    GRPOTrainer(model, environment_factory=environment(panel), train_dataset=dataset(panel), reward_funcs=[], ...)

TRL appends tool results to one chat, so the context is always `conversation`. `max_tool_calling_iterations` must be at
least `info["max_steps"]`. A result that exceeds `max_completion_length` ends the rollout without an error. `mage train`
has none of these limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import mage_envs
from mage_envs.wrappers.adapters.rewards import make_for


def dataset(panel: str, instruction: str = "Play by calling the tool `answer`.") -> Any:
    """Return the rows of a panel as a data set with one prompt each.

    Args:
        panel: Name of the panel.
        instruction: First part of the prompt. The environment's first message follows it.
    """
    from datasets import Dataset

    rows = [asdict(task) for task in mage_envs.panel(panel).tasks()]
    prompts = [{"prompt": [{"role": "user", "content": instruction}], **row} for row in rows]
    return Dataset.from_list(prompts)


def environment(panel: str, reward: str = "return", env_kwargs: Mapping[str, Any] | None = None) -> Callable[[], Any]:
    """Return a class of environments for the rows of a panel. TRL makes one per rollout.

    Args:
        panel: Name of the panel.
        reward: One of `mage_envs.wrappers.adapters.rewards.REWARDS`.
        env_kwargs: Options of the environment.
    """
    options = {"memory": "both", **(env_kwargs or {}), "context": "conversation"}

    class MetaEpisodeTool:
        # TRL offers every public method as a tool, so all attributes are private.
        def __init__(self) -> None:
            self._env = make_for(mage_envs.panel(panel), reward, options)
            self._total, self._over = 0.0, True

        def reset(self, **row: Any) -> str:
            fields = {name: row[name] for name in mage_envs.Task.__dataclass_fields__}
            task = mage_envs.Task(**fields)
            self._total, self._over = 0.0, False
            observation, _ = self._env.reset(seed=task.seed, options=task.options())
            # TRL appends the text to the last message without a separator.
            return "\n\n" + observation

        def answer(self, reply: str) -> str:
            """Send your whole answer, with its tags, and receive the next message.

            Args:
                reply: The answer, such as <action>bet</action>.

            Returns:
                The next message, or the result of the last episode.
            """
            if self._over:
                return "The series is over."
            observation, paid, terminated, truncated, _ = self._env.step(reply)
            self._total += float(paid)
            self._over = terminated or truncated
            return observation

        def get_reward(self) -> float:
            return self._total

    return MetaEpisodeTool
