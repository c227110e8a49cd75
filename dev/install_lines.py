"""The install lines of the pages and notebooks before and after publication: `python -m dev.install_lines`.

As long as `[project.urls]` in pyproject.toml has no entry `Source`, nothing is published, and the first install line
of each page works in a clone. Once the entry exists, this program replaces these lines. `pip install
"mage-envs[EXTRA]"` for an extra is true in both cases, because the package is installed before.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
_CELL = '%pip install --quiet \\"../..[', '%pip install --quiet \\"mage-envs['
_UNPUBLISHED = "Nothing is published yet: run the first line in a clone of the repository.\n\n", ""
LINES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "README.md": (
        (
            "pip install -e .                   # in a clone: environments, opponents, meta-episodes; or",
            "pip install mage-envs              # environments, opponents, meta-episodes; or",
        ),
    ),
    "docs/start.md": (
        ("pip install -e .                  # environments", "pip install mage-envs             # environments"),
        _UNPUBLISHED,
    ),
    "docs/installation.md": (
        ("pip install -e .                       # env", "pip install mage-envs                  # env"),
        _UNPUBLISHED,
    ),
    "examples/notebooks/does_your_model_adapt.ipynb": (_CELL,),
    "examples/notebooks/train_a_learner.ipynb": (_CELL,),
}
"""Texts of each file before and after publication."""


def is_published() -> bool:
    """Return True if pyproject.toml names the public repository."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return "Source" in project["urls"]


def stale_texts(published: bool) -> list[tuple[str, str]]:
    """Return (file, text) of each text that must not be there, or is missing."""
    stale = []
    for name, pairs in LINES.items():
        text = (ROOT / name).read_text()
        for unpublished_text, published_text in pairs:
            if published and unpublished_text in text:
                stale.append((name, unpublished_text))
            if not published and (text.count(unpublished_text) != 1 or (published_text and published_text in text)):
                stale.append((name, unpublished_text))
    return stale


def switch(text: str, pairs: tuple[tuple[str, str], ...]) -> str:
    """Return the text of a file after publication."""
    for unpublished_text, published_text in pairs:
        text = text.replace(unpublished_text, published_text)
    return text


def main() -> None:
    """Replace the lines. Raises SystemExit before publication."""
    if not is_published():
        raise SystemExit("Nothing is published: [project.urls] in pyproject.toml has no entry Source.")
    for name, pairs in LINES.items():
        path = ROOT / name
        path.write_text(switch(path.read_text(), pairs))


if __name__ == "__main__":
    main()
