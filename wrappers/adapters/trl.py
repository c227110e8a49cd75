"""TRL 1.16: an `environment_factory` with one tool, and the data set of a panel.

    GRPOTrainer(
        model, environment_factory=environment(panel), train_dataset=dataset(panel), reward_funcs=[columns], ...
    )

TRL appends tool results to one chat, so the context is always `conversation`. `max_tool_calling_iterations` must be at
least `info["max_steps"]`. A result that exceeds `max_completion_length` ends the rollout without an error. `mage train`
has none of these limits.

Each training is recorded below `runs`, or in the folder `out`, which several processes need: the first play of each row
in the folder, the second in `FOLDER-pass-2`, and so on. `mage adapt FOLDER` reads it. The reward function `columns`
logs the means of `mage/level`, `mage/regret` and `mage/best`, and pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import mage_envs
from mage_envs.wrappers.adapters.recording import Passes, RecordedRow, new_folder


def dataset(panel: str, instruction: str = "Play by calling the tool `answer`.") -> Any:
    """Return the rows of a panel as a data set with one prompt each.

    Args:
        panel: Name of the panel.
        instruction: First part of the prompt. The environment's first message follows it.
    """
    from datasets import Dataset

    rows = [asdict(task) for task in mage_envs.panel(panel).tasks()]
    prompts = [
        {"prompt": [{"role": "user", "content": instruction}], **row, "row": index} for index, row in enumerate(rows)
    ]
    return Dataset.from_list(prompts)


def environment(
    panel: str, reward: str = "return", env_kwargs: Mapping[str, Any] | None = None, out: str | None = None
) -> Callable[[], Any]:
    """Return a class of environments for the rows of a panel. TRL makes one per rollout.

    Args:
        panel: Name of the panel.
        reward: One of `mage_envs.wrappers.adapters.rewards.REWARDS`.
        env_kwargs: Options of the environment.
        out: Folder of the record (default: a new one below `runs`).
    """
    options = {"memory": "both", **(env_kwargs or {}), "context": "conversation"}
    passes = Passes(out or new_folder("trl", panel), "trl", reward, options)

    class MetaEpisodeTool:
        # TRL offers every public method as a tool, so all attributes are private.
        def __init__(self) -> None:
            self._row: RecordedRow | None = None
            self._total, self._over = 0.0, True
            self._columns: dict[str, float] = {}

        def reset(self, **row: Any) -> str:
            self._row = passes.start(panel, int(row["row"]))
            self._total, self._over, self._columns = 0.0, False, {}
            # TRL appends the text to the last message without a separator.
            return "\n\n" + self._row.prompt

        def answer(self, reply: str) -> str:
            """Send your whole answer, with its tags, and receive the next message.

            Args:
                reply: The answer, such as <action>bet</action>.

            Returns:
                The next message, or the result of the last episode.
            """
            if self._over or self._row is None:
                return "The series is over."
            observation, paid, terminated, truncated, _ = self._row.env.step(reply)
            self._total += float(paid)
            self._over = terminated or truncated
            if self._over:
                self._columns = self._row.columns()
            return str(observation)

        def get_reward(self) -> float:
            return self._total

    return MetaEpisodeTool


def columns(environments: Sequence[Any], log_metric: Callable[[str, float], None], **kwargs: Any) -> list[float]:
    """Log the exact columns of the meta-episodes that ended, as a reward function that pays nothing.

    Args:
        environments: Environments of the rollouts.
        log_metric: TRL's function that logs a mean.
        kwargs: Everything else that TRL passes.
    """
    for env in environments:
        for name, value in env._columns.items():
            log_metric(f"mage/{name}", value)
    return [0.0] * len(environments)
