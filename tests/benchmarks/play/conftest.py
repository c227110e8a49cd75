"""The terminal of the tests of `mage play`."""

from tests.mage_envs.cli.conftest import open_terminal

__all__ = ["open_terminal"]
