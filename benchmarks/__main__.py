"""`python -m benchmarks`: the program `mage`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import mage_commands


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program in this process. Returns its exit status."""
    return mage_commands.main(arguments)


if __name__ == "__main__":
    sys.exit(mage_commands.mage())
