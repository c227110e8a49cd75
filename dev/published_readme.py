"""The README as a package index shows it.

The README of a clone has relative links, which an index cannot resolve. Once `[project.urls]` in pyproject.toml has an
entry `Source`, the address of the public repository, wheels and source distributions carry it with absolute links.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!https?://|#)([^)]+)\)")
"""A link or an image of Markdown with a relative address."""


class PublishedReadme(MetadataHookInterface):
    """Fill in the field `readme` of the project's metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme` from README.md and the address `Source`."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        if source := metadata["urls"].get("Source"):
            text = with_absolute_links(text, source.rstrip("/"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def with_absolute_links(text: str, repository: str) -> str:
    """Return Markdown whose relative links and images are files of the repository's default branch."""
    return LINK.sub(
        lambda match: f"{match[1]}{match[2]}({repository}/{'raw' if match[1] else 'blob'}/HEAD/{match[3]})", text
    )
