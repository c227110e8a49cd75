"""Subcommands of the program, called in this process."""

from __future__ import annotations

from collections.abc import Sequence

from mage_envs.cli.program import main


def train(arguments: Sequence[str]) -> int:
    """`mage train` with these arguments."""
    return main(["train", *arguments])


def sweep(arguments: Sequence[str]) -> int:
    """`mage train --sweep` with these arguments."""
    return main(["train", "--sweep", *arguments])
