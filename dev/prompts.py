"""docs/prompts.md: the prompts of each id. `python -m dev.prompts` plays, and rewrites the page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium as gym

from dev.doc_tables import games

PAGE = Path(__file__).parent.parent / "docs" / "prompts.md"
SEED = 3
ILLEGAL = "resign"
"""First answer of each meta-episode. No game has this action."""
PLAY, LATER, REFLECT = "play", "play, after an invalid answer", "reflect"
MAX_CHARACTERS = 4_000
"""Maximum characters of a prompt on the page. Only prompts with many pages of a shop are longer."""
INTRODUCTION = f"""\
# The prompts of each id

This page is generated: `python -m dev.prompts` plays with the default options (style `plain`, memory `reflection`,
seed {SEED}) and writes the prompts that a model receives. A test compares the page with the code. The first answer is
`{ILLEGAL}`, which is invalid in every game; the answers after it are the first legal actions. `[...]` replaces the task
where it equals that of the first prompt, and the middle of a long prompt.

The styles are `plain` (default), `paper` (the same without the list of legal actions in those games whose prompts in
the paper have none, so that the effect of that list can be measured) and `words` (few words, for very small
models).
"""


def prompts_of(game: str) -> dict[str, str]:
    """Return the first prompt, the prompt after an invalid answer, and the first request to reflect."""
    # The built-in catalogue of the shop has a size that is quick to build.
    options: dict[str, Any] = {"size": "tiny"} if game == "WebShop" else {}
    env = gym.make(f"mage/{game}-Meta-v0", disable_env_checker=True, num_episodes=2, **options)
    prompt, info = env.reset(seed=SEED)
    prompts = {PLAY: prompt}
    answer = ILLEGAL
    while info["phase"] == "play":
        prompt, _, _, _, info = env.step(f"<action>{answer}</action>")
        prompts.setdefault(LATER, prompt)
        answer = info["legal_actions"][0] if info["legal_actions"] else ""
    return {**prompts, REFLECT: prompt}


def shorten(prompt: str, task: str) -> str:
    """Return a prompt without a task that equals `task`, and without the middle if it is long."""
    text = prompt.replace(task, "[...]")
    half = MAX_CHARACTERS // 2
    return text if len(text) <= MAX_CHARACTERS else f"{text[:half]}\n[...]\n{text[-half:]}"


def section(game: str) -> str:
    """Return the section of an id."""
    prompts = prompts_of(game)
    task = prompts[PLAY].split("\n\n")[0].removeprefix("# Task\n")
    blocks = [f"## mage/{game}-Meta-v0"]
    for name, prompt in prompts.items():
        text = prompt if name == PLAY else shorten(prompt, task)
        blocks.append(f"### {game}: {name}\n\n````text\n{text}\n````")
    return "\n\n".join(blocks)


def page() -> str:
    """Return the text of the page."""
    return "\n".join([INTRODUCTION, *(f"{section(game)}\n" for game in games())])


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
