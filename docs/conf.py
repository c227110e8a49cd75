"""Configuration of the documentation site: `make docs` builds it, and a test builds it with warnings as errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
# The API reference imports the packages of this checkout, also if another copy is installed.
sys.path.insert(0, str(ROOT))

import mage_envs  # noqa: E402

project = "MAGE Envs"
author = "the MAGE Envs developers"
version = release = mage_envs.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "MAGE Envs"

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
# Docstrings are Markdown in spirit: one backtick marks code, as on GitHub.
default_role = "code"


_OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#]+\.md)\)")
"""A link to a Markdown file outside of docs/. Sphinx would look for a page of the site."""


def _link_as_download(app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] = _OUTSIDE.sub(r"{download}`\1 <\2>`", source[0])


def _link_included_pages(app: Sphinx, path: Path, parent: str, content: list[str]) -> None:
    content[0] = content[0].replace("(CHANGELOG.md)", "(changelog.md)")


def setup(app: Sphinx) -> None:
    """Offer the Markdown files of other folders, such as recorded results, as downloads."""
    app.connect("source-read", _link_as_download)
    app.connect("include-read", _link_included_pages)
