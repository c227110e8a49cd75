"""ReAct (Yao et al. 2022, arXiv 2210.03629): thoughts between the actions, and no memory across episodes.

K episodes are K independent samples, so the Pass@k of ReAct measures the effect of resampling alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from mage_envs.loading.options import check_positive
from mage_envs.text.prompts import TurnRecord
from mage_envs.wrappers.baselines.baseline import Baseline
from mage_envs.wrappers.memory import MemoryView

_ACT = "Think in a few sentences first: what does the last observation tell you, and what should come next? Then act."
_THINK = " You may also answer with a thought alone, without an action: that spends no turn, at most {} in a row."


class ReAct(Baseline):
    """Strategy that shows the thoughts and actions of the current episode. Its memory is always empty."""

    def __init__(self, think_action: bool = False, max_in_a_row: int = 2, max_tokens: int = 1000) -> None:
        """Set the limits of the thoughts.

        Args:
            think_action: True if a reply with a thought and no action uses a model call but no turn.
            max_in_a_row: Maximum number of such replies in a row.
            max_tokens: Maximum length of the earlier thoughts in a prompt. If it is exceeded, the oldest are dropped.
        """
        super().__init__(max_tokens)
        check_positive("max_in_a_row", max_in_a_row)
        self.max_thoughts = max_in_a_row if think_action else 0
        self.instruction = _ACT + (_THINK.format(max_in_a_row) if think_action else "")

    def before_episode(self, episode: int, view: MemoryView) -> None:
        self._dropped = self._shown = 0

    def thoughts(self, turns: Sequence[TurnRecord]) -> Sequence[str]:
        written = [index for index, record in enumerate(turns) if record.thought]
        # Newest first, because `_count_shown` counts from the start of its list.
        newest = written[::-1]
        shown_indices = set(newest[: self._count_shown([turns[index].thought for index in newest])])
        return [record.thought if index in shown_indices else "" for index, record in enumerate(turns)]
