"""Ctrl-C while a command starts: one line and exit status 130, during any import."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mage_envs.cli import program
from tests.packages import mark_params
from tests.processes import ROOT

WAITING = """
import os, sys, time

class Waits:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["WAIT_AT"]:
            open(os.environ["REACHED"], "w").close()
            time.sleep(60)

sys.meta_path.insert(0, Waits())
"""
"""A sitecustomize: the process reports its import, and waits there for a signal from outside."""
SWALLOWING = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
    sum(range(10_000))
except KeyboardInterrupt:
    raise ImportError("could not import module") from None
"""
SCRIPT = "import sys; sys.argv[0] = 'mage'; from mage_envs.cli.program import mage; sys.exit(mage())"
"""A console script, as pip writes it."""
WORDS = {
    "list": ("list", "KuhnPoker"),
    "train": ("train", "--preset", "mage-kuhn", "--dry-run"),
    "panels": ("list", "panels"),
}
OURS = tuple(
    f'  File "{ROOT / package}/' for package in ("mage_envs", "opponents", "wrappers", "trainer", "benchmarks")
)
"""Beginnings of traceback lines that name code of the suite, which may contain an environment of its own."""
HANDLER = tuple(f'  File "{ROOT / "mage_envs" / name}"' for name in ("__init__.py", "interrupts.py"))
"""The same for the files that install the handler."""
MOMENTS = {
    "list": ("mage_envs.core", "numpy", "gymnasium", "mage_envs.benchmarks.commands.listing"),
    "train": (
        "typer",
        "mage_envs.trainer.method.metrics",
        "numpy",
        "mage_envs.trainer.cli.arguments",
        "mage_envs.trainer.cli.estimate",
    ),
    "panels": ("mage_envs.cli.commands", "numpy", "mage_envs.benchmarks.evaluation.suites"),
}


def start_command(command: str, by_script: bool, folder: Path, **settings: str) -> subprocess.Popen[str]:
    """The console script, or `python -m mage_envs`."""
    begun = ("-c", SCRIPT) if by_script else ("-m", "mage_envs")
    (folder / "sitecustomize.py").write_text(WAITING)
    search_path = os.pathsep.join([str(folder), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, *begun, *WORDS[command]],
        env=os.environ | {"PYTHONPATH": search_path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"} | settings,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=restore_sigint,
    )


def restore_sigint() -> None:
    """Enable Ctrl-C in a child, even if the tests themselves ignore it, as under nohup."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


INSIDE = {(command, False, moment) for command in WORDS for moment in ("mage_envs.core", "numpy", "gymnasium")}
"""Moments within `import mage_envs` itself. `python -m` imports the package before the command starts."""


@pytest.mark.parametrize(
    ("command", "by_script", "moment"),
    [
        pytest.param(command, by_script, moment, marks=() if command == "list" else pytest.mark.more)
        for command, moments in MOMENTS.items()
        for by_script in (False, True)
        for moment in moments
        if (command, by_script, moment) not in INSIDE
    ],
)
def test_a_signal_while_it_imports_ends_it_in_one_line(
    command: str, moment: str, by_script: bool, tmp_path: Path
) -> None:
    reached = tmp_path / "reached"
    with start_command(command, by_script, tmp_path, WAIT_AT=moment, REACHED=str(reached)) as process:
        while not reached.exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert len(err.strip().splitlines()) == 1
    assert "nterrupted" in err


@pytest.mark.parametrize("command", mark_params(MOMENTS, step=3))
def test_an_import_that_makes_another_error_of_the_signal_hides_nothing(command: str, tmp_path: Path) -> None:
    """Report Ctrl-C even if an import turns it into another error, as NumPy's compiled modules do."""
    (tmp_path / "swallows.py").write_text(SWALLOWING)
    words = [*WORDS[command], "--import", "swallows"]
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        env=os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=restore_sigint,
    )
    assert (process.returncode, process.stdout) == (130, "")
    assert process.stderr.strip().endswith(": interrupted.")
    assert len(process.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("step", ["resolve_command", "parse_args"])
def test_a_signal_between_imports_is_reported(step: str, capfd, monkeypatch) -> None:
    """Typer's own exit status 130 comes without a message."""
    monkeypatch.setattr(program.LazyGroup, step, interrupt)
    assert program.main(["list", "KuhnPoker"]) == program.INTERRUPTED
    assert capfd.readouterr() == ("", "\nInterrupted.\n")


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_importing_the_packages_changes_no_handler() -> None:
    """Also under the name of a command, as `python -m` has it."""
    code = """
import signal, sys
before = [signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)]
sys.argv[:] = ["-m"]; sys.orig_argv[:] = ["python", "-m", "mage_envs"]
import mage_envs.opponents, mage_envs.wrappers, mage_envs.trainer, mage_envs.benchmarks
assert before == [signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)]
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)


@pytest.mark.more
@pytest.mark.parametrize(("command", "by_script"), [*((command, True) for command in MOMENTS), ("train", False)])
def test_a_signal_at_any_time_ends_it_in_one_line(command: str, by_script: bool, tmp_path: Path) -> None:
    """Accept Python's own traceback if the signal comes before the handler is imported.

    `python -m` imports the package before the command starts.
    """
    for delay in (0.05, 0.2, 0.4, 0.8):
        with start_command(command, by_script, tmp_path, WAIT_AT="-", REACHED="") as process:
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=120)
        if process.returncode == 130:
            assert len(err.strip().splitlines()) == 1
        elif process.returncode == 0:  # it was through already, or Python itself swallowed the signal
            assert not any(line.startswith(OURS) for line in err.splitlines())
        else:
            ours = [line for line in err.splitlines() if line.startswith(OURS)]
            in_package = not by_script and "/mage_envs/__init__.py" in "".join(ours)
            assert in_package or all(line.startswith(HANDLER) for line in ours), err
