"""docs/prompts.md equals the output of its generator."""

from __future__ import annotations

import pytest

from dev import prompts

pytest.importorskip("textworld")


def test_the_page_is_what_the_generator_writes() -> None:
    assert prompts.PAGE.read_text(encoding="utf-8") == prompts.page(), "Run `python -m dev.prompts`."


def test_a_long_prompt_loses_its_middle_and_a_known_task() -> None:
    text = prompts.shorten("# Task\nRules.\n\n" + "a" * 3000 + "b" * 3000, "Rules.")
    assert text.startswith("# Task\n[...]\n\naaa")
    assert text.endswith("bbb")
    assert len(text) == prompts.MAX_CHARACTERS + len("\n[...]\n")
