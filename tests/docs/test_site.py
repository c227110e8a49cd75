"""The documentation site: it builds without warnings, and every page is in its menu."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT

pytestmark = pytest.mark.more
PAGES = sorted(path.stem for path in (ROOT / "docs").glob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site in a process of its own, because Sphinx changes the state of the interpreter."""
    pytest.importorskip("sphinx", reason="requires the extra dev")
    folder = tmp_path_factory.mktemp("site")
    # -W turns each warning into an error: a broken link, a page outside of the menu, a docstring that does not parse.
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_built(site: Path) -> None:
    assert PAGES
    assert [name for name in PAGES if not (site / f"{name}.html").exists()] == []


def test_the_reference_shows_docstrings(site: Path) -> None:
    reference = (site / "api.html").read_text()
    for name in (
        "mage_envs.MetaEpisode",
        "mage_envs.opponents.register_opponent",
        "mage_envs.opponents.exact.headroom",
        "mage_envs.trainer.collect",
    ):
        assert f'id="{name}"' in reference, name
    assert "Rules: there are three cards" in (site / "games.html").read_text()
