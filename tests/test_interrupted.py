"""Ctrl-C while a command starts: one line and exit status 130, whatever is being imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import run_python

SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
command, moment = sys.argv[1:3]
sys.argv[1:] = sys.argv[3:]

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            signal.raise_signal(signal.SIGINT)

import mage_commands
sys.meta_path.insert(0, Interrupt())
sys.exit(getattr(mage_commands, command)())
"""
MOMENTS = {
    "envs": (
        ("list", "KuhnPoker"),
        ("mage_envs", "numpy", "gymnasium", "mage_envs.hand", "mage_envs.__main__", "mage_envs.terminal.listing"),
    ),
    "train": (("--preset", "mage-kuhn", "--dry-run"), ("trainer", "mage_envs.hand", "trainer.config", "torch")),
    "bench": (("list",), ("benchmarks", "mage_envs", "numpy", "opponents", "benchmarks.evaluation.suites")),
}


@pytest.mark.parametrize(
    ("command", "moment"), [(command, moment) for command, (_, moments) in MOMENTS.items() for moment in moments]
)
def test_it_ends_in_one_line(command: str, moment: str, tmp_path: Path) -> None:
    done = run_python("-c", SCRIPT, command, moment, *MOMENTS[command][0], folder=tmp_path)
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
