"""`python -m mage_envs`: the program `mage`."""

import sys

if __name__ == "__main__":
    # Before the program itself is imported, which takes a while.
    from mage_envs import interrupts

    interrupts.catch()

    from mage_envs.cli.program import mage

    sys.exit(mage())
