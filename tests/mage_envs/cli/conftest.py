"""A terminal for the tests of the terminal play."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.mage_envs.cli.terminal import Terminal


@pytest.fixture
def open_terminal() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_one(*arguments: str) -> Terminal:
        opened.append(Terminal(*arguments))
        return opened[-1]

    yield open_one
    for terminal in opened:
        terminal.close()
