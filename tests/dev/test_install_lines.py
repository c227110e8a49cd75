"""The first install line of each page is true today, and is switched by one entry."""

from __future__ import annotations

import pytest

from dev.install_lines import LINES, ROOT, is_published, main, stale_texts, switch


def test_the_lines_are_those_of_today() -> None:
    assert stale_texts(is_published()) == []


def test_the_switch_replaces_each_of_them() -> None:
    for name, pairs in LINES.items():
        text = switch((ROOT / name).read_text(), pairs)
        assert not [line_before for line_before, _ in pairs if line_before in text]
        assert all(line_after in text for _, line_after in pairs)


@pytest.mark.skipif(is_published(), reason="needs an unpublished project")
def test_nothing_is_switched_before_publication() -> None:
    with pytest.raises(SystemExit, match="has no entry Source"):
        main()
    assert len(stale_texts(published=True)) == sum(map(len, LINES.values()))


def test_no_other_page_installs_the_core_from_an_index() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    lines = [line for page in pages for line in page.read_text().splitlines()]
    assert is_published() or not [line for line in lines if line.startswith("pip install mage-envs")]
