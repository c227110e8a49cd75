"""`python -m mage_envs`: the program `mage`."""

import sys

from mage_envs.cli.program import mage

if __name__ == "__main__":
    sys.exit(mage())
