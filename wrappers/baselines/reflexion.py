"""Reflexion (Shinn et al. 2023, arXiv 2303.11366): if an episode fails, the model writes a plan for the next one."""

from __future__ import annotations

import re

from mage_envs.loading.options import check_choice, check_positive
from mage_envs.text.parser import INVALID
from mage_envs.text.prompts import EpisodeRecord
from mage_envs.wrappers.baselines.baseline import Baseline, tag_instruction, trace
from mage_envs.wrappers.memory import Answer, MemoryView, Request

TRACE = 12_000
"""Maximum number of characters of the turns in a request."""
_ROLE = (
    "You look back at an attempt of your own{failed}. Do not describe the setting again. Find out what in your way of "
    "playing led to this result, and write a short new plan for the next attempt that names concrete actions."
)


class Reflexion(Baseline):
    """Strategy that keeps the newest reflections of the meta-episode. Play prompts show only these, no transcript."""

    heading = "Plans that you made for the next attempt"

    def __init__(
        self, window: int = 3, reflect_on: str = "failure", failure_if: str = "no_success", max_tokens: int = 2000
    ) -> None:
        """Set the rules for reflections.

        Args:
            window: Maximum number of stored reflections.
            reflect_on: `failure`, or `always` as an ablation.
            failure_if: Criterion of a failure: `no_success` (a draw fails too), or `score<X` for games of chance, with
                X in the game's unit.
            max_tokens: Maximum length of the memory's text in a play prompt.
        """
        super().__init__(max_tokens)
        check_positive("window", window)
        check_choice("reflect_on", reflect_on, ("failure", "always"))
        below = re.fullmatch(r"score<([-+]?\d+(?:\.\d+)?)", failure_if)
        if below is None and failure_if != "no_success":
            raise ValueError(f"failure_if={failure_if!r} is unknown; choose 'no_success' or e.g. 'score<0.5'.")
        self._below = None if below is None else float(below[1])
        self._window, self._always = window, reflect_on == "always"
        self._reflections: list[tuple[int, str]] = []

    def begin(self) -> None:
        super().begin()
        self._reflections = []

    def is_failure(self, record: EpisodeRecord) -> bool:
        """Return True if the episode counts as a failure."""
        return not record.success if self._below is None else record.value < self._below

    def after_episode(self, view: MemoryView, last: bool) -> Request | None:
        record = view.records[-1]
        if last or not (self._always or self.is_failure(record)):
            return None
        return Request("reflect", self._request(view, record))

    def on_answer(self, request: Request, answer: Answer, view: MemoryView) -> None:
        if answer.reason is not None:
            self._tell_failure(request, answer)
        # A whole reply without the tag is still a plan, but a cut reply is not.
        if answer.reason not in (None, INVALID) or not answer.text:
            return
        self._reflections.append((view.records[-1].index, answer.text))
        if len(self._reflections) > self._window:
            episode, _ = self._reflections.pop(0)
            self._tell("evicted", episode=episode)

    def render(self, view: MemoryView) -> str:
        items = [f"after episode {episode + 1}: {text}" for episode, text in self._reflections]
        shown_items = items[len(items) - self._count_shown(items[::-1]) :]
        return "\n".join(f"{number}. {item}" for number, item in enumerate(shown_items, start=1))

    def _request(self, view: MemoryView, record: EpisodeRecord) -> str:
        # Styles that state the setting state the end once, with their own verdict.
        says_failed = not view.states_setting
        failed = self.is_failure(record)
        parts = [_ROLE.format(failed=" that failed" if failed and says_failed else "")]
        if not view.continuing:
            parts += [
                f"# Task\n{view.setting()}",
                f"# How it began\n{record.first_observation}",
                f"# Attempt {record.index + 1} of {view.num_episodes}\n{trace(record.turns, TRACE)}",
            ]
        status = f"\nStatus: {'FAILED' if failed else 'not failed'}." if says_failed else ""
        parts.append(f"# Its end\n{view.ended(record)}{status}")
        if self._reflections:
            plans = [f"{number}. {text}" for number, (_, text) in enumerate(self._reflections, start=1)]
            parts.append("\n".join(["# Your earlier plans", *plans]))
        parts.append(f"Write the new plan in a few sentences.{tag_instruction(view.style.remark_tag, 'your plan')}")
        return "\n\n".join(parts)
