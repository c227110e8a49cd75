"""Test a wheel in fresh environments: oldest and newest core dependencies, several Pythons, and the size of each extra.

    python -m dev.versions                             # oldest and newest core dependencies, on this Python
    python -m dev.versions --python PATH [PATH ...]    # the newest ones on other Pythons too
    python -m dev.versions --extras report webshop     # and the installed size and time of extras

Each row of the tables is an environment of its own, made and removed again. The evaluation must have the same root
digest in all of them. Every command is called once in an environment with [all] and without ALFWorld's engine.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[1]
CHECK = """
from mage_envs.testing import check_id

for name in ("KuhnPoker", "LeducPoker", "TicTacToe", "Sokoban", "WebShop"):
    for kind in ("v0", "Meta-v0"):
        check_id(f"mage/{name}-{kind}")
"""
SITE_TIMEOUT_S = 120.0
"""Seconds to wait for the arena's first page, which makes every game once."""
SMOKE = (
    (("--version",), ""),
    (("list",), ""),
    (("play", "mage/KuhnPoker-v0"), "quit\n"),
    (("headroom", "Ultimatum"), ""),
    (("eval", "policy:kuhn/nash", "--panel", "kuhn-paper-16", "--out", "run"), ""),
    (("verify", "run"), ""),
)
"""Commands of the smoke test with their standard input. The last one prints the root digest."""


ROWS = "- {name: first, agent: scripted:first}\n- {name: random, agent: scripted:random}\n"
EVERY_COMMAND: Mapping[str, tuple[str, ...]] = {
    "play": ("kuhn_poker",),
    "list": (),
    "doctor": (),
    "check": ("mage/KuhnPoker-v0", "--quick", "--check", "order"),
    "serve": ("--help",),
    "demo": ("--help",),
    "train": ("--preset", "mage-kuhn", "--model", "tiny", "--dry-run"),
    "paper": ("table1", "--dry-run", "--quick"),
    "adapt": ("--help",),
    "eval": ("scripted:first", "scripted:random", "--panel", "kuhn-paper-128", "--out", "runs"),
    "tournament": ("KuhnPoker", "--opponents", "uniform,kuhn/rock", "--games", "20", "--out", "cup"),
    "compare": ("runs/scripted-first", "runs/scripted-random"),
    "report": ("runs/scripted-first", "runs/scripted-random"),
    "verify": ("runs/scripted-first", "--replay"),
    "export": ("runs/scripted-first", "--to", "parquet"),
    "headroom": ("KuhnPoker", "--plot", "headroom.png"),
    "regret": ("policy:uniform", "--env", "kuhn_poker", "--rows", "2"),
    "exploit": ("--help",),
}
"""Arguments of one short call of each subcommand, in an order in which the runs exist when they are read.

A subcommand that serves, downloads or trains for minutes prints its help.
"""
LONG_COMMANDS = (
    ("headroom", "--all"),
    ("eval", "rows.yaml", "--suite", "paper-table1", "--quick", "--out", "suite"),
    ("eval", "rows.yaml", "--suite", "paper-table1", "--quick", "--dry-run"),
    *(("verify", "runs/scripted-first", *words) for words in ((), ("--challenge", "--out", "attested"))),
    ("compare", "runs/scripted-first", "runs/scripted-random", "--page", "page.html"),
    ("headroom", "matrix_rps", "--ceilings"),
    ("headroom", "Encounters", "--transfer"),
    (
        "eval",
        "scripted:random",
        "--panel",
        "sokoban-train",
        "--memory",
        "memento",
        "--rows",
        "1",
        "--fill",
        "bank.json",
    ),
    ("adapt", "scripted:random", "--suite", "adapt-mini"),
)
"""Further calls that take minutes. Each of them has a row of ALFWorld, or a table of many games."""


class CommandFailed(RuntimeError):
    """Error of a command in an environment. The message has the command and the end of its output."""


class FreshInstall(NamedTuple):
    """A fresh virtual environment with the wheel."""

    folder: Path
    """Folder of the environment."""
    seconds: float
    """Wall-clock time of `pip install`, without pip's cache."""
    megabytes: float
    """Size of the installed files, without pip."""

    def run(self, *command: str, stdin: str = "") -> str:
        """Run a command of the environment's `bin` in its folder and return its output."""
        return run(str(self.folder / "bin" / command[0]), *command[1:], folder=self.folder, stdin=stdin)

    def versions(self, names: Sequence[str]) -> str:
        """Return the installed versions of Python and of the named distributions."""
        script = "import platform, sys; from importlib.metadata import version as v; print(platform.python_version()"
        script += ", *(f'{name} {v(name)}' for name in sys.argv[1:]), sep=', ')"
        return self.run("python", "-c", script, *names).strip()


def run(*command: str, folder: Path, stdin: str = "") -> str:
    """Run a command without this checkout on its path and return its standard output.

    Raises:
        CommandFailed: If the command fails.
    """
    process = subprocess.run(command, cwd=folder, input=stdin, capture_output=True, text=True, check=False, env=clean())
    if process.returncode:
        output = (process.stderr or process.stdout)[-2000:]
        raise CommandFailed(f"{' '.join(command)} exited with {process.returncode}: {output}")
    return process.stdout


def clean() -> dict[str, str]:
    """Return the environment variables without Python's own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def core_dependencies() -> list[str]:
    """Return the requirements of a core installation, from pyproject.toml."""
    requirements: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return requirements


def oldest(requirements: Sequence[str]) -> list[str]:
    """Return the requirements pinned to their lower bounds."""
    return [re.sub(r">=([\w.]+).*", r"==\1", requirement) for requirement in requirements]


def install(python: str, target: str, folder: Path, pins: Sequence[str] = ()) -> FreshInstall:
    """Make an environment and install a wheel into it.

    Args:
        target: The wheel, with an extra in brackets if wanted.
        pins: Constraints of other packages. Without them pip takes the newest versions.
    """
    run(python, "-m", "venv", str(folder), folder=ROOT)
    empty = count_bytes(folder)
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(pins) + "\n")
    began = time.monotonic()
    pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-cache-dir", "-c", str(constraints))
    run(*pip, target, folder=folder)
    return FreshInstall(folder, time.monotonic() - began, (count_bytes(folder) - empty) / 1e6)


def count_bytes(folder: Path) -> int:
    """Return the size of all files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def smoke(environment: FreshInstall) -> str:
    """Run the smoke test with warnings as errors and return the root digest of its evaluation."""
    environment.run("python", "-W", "error", "-c", CHECK)
    for command, stdin in SMOKE:
        output = environment.run("mage", *command, stdin=stdin)
    digest = re.search(r"root (\w+): valid", output)
    if digest is None:
        raise CommandFailed(f"mage verify printed no root digest: {output}")
    return digest[1]


def call_every_command(environment: FreshInstall, long: bool = True) -> None:
    """Call every subcommand once, and open the arena.

    Args:
        environment: Environment in which the commands run.
        long: True to call those of `LONG_COMMANDS`, too.

    Raises:
        CommandFailed: If a command fails, or if the arena's first page does not open.
    """
    (environment.folder / "rows.yaml").write_text(ROWS)
    for name, words in EVERY_COMMAND.items():
        environment.run("mage", name, *words, stdin="quit\n")
    for command in LONG_COMMANDS if long else ():
        environment.run("mage", *command)
    open_arena(environment)


def open_arena(environment: FreshInstall) -> None:
    """Start the arena, request its first page, and stop it. Raises CommandFailed if there is no page."""
    program = str(environment.folder / "bin" / "mage")
    with subprocess.Popen(
        [program, "play", "--browser", "--port", "0"], stdout=subprocess.PIPE, text=True, env=clean()
    ) as site:
        try:
            address = re.search(r"http://\S+", site.stdout.readline() if site.stdout else "")
            if address is None:
                raise CommandFailed("mage play --browser printed no address.")
            # An answer other than 200 raises HTTPError.
            with urlopen(address[0], timeout=SITE_TIMEOUT_S) as page:
                if b"KuhnPoker" not in page.read():
                    raise CommandFailed("The arena's first page does not list KuhnPoker.")
        except URLError as error:
            raise CommandFailed(f"The arena's first page does not open: {error}") from error
        finally:
            site.terminate()


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the wheel, test it in each environment and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m dev.versions", description=__doc__.splitlines()[0])
    parser.add_argument("--python", nargs="+", default=[], help="more interpreters for the newest dependencies")
    parser.add_argument("--extras", nargs="+", default=[], help="extras to install and measure, each beside the core")
    options = parser.parse_args(arguments)
    requirements = core_dependencies()
    names = [re.split(r"[>=<]", requirement)[0] for requirement in requirements]
    plans = [("oldest", sys.executable, oldest(requirements)), ("newest", sys.executable, [])]
    plans += [("newest", python, []) for python in options.python]
    roots = set()
    with tempfile.TemporaryDirectory() as wheel_folder:
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheel_folder, folder=ROOT)
        [wheel] = Path(wheel_folder).glob("*.whl")
        print("| core | Python, versions | root of the evaluation |\n|---|---|---|")
        for row, (kind, python, pins) in enumerate(plans):
            with tempfile.TemporaryDirectory() as folder:
                environment = install(python, str(wheel), Path(folder) / str(row), pins)
                roots.add(root := smoke(environment))
                print(f"| {kind} | {environment.versions(names)} | {root} |", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            environment = install(sys.executable, f"{wheel}[all]", Path(folder) / "environment")
            call_every_command(environment)
            print(f"\nEvery command runs in an environment with [all] and without alfworld: {len(EVERY_COMMAND)}")
        print("\n| extra | size in MB | seconds of pip |\n|---|---|---|")
        for extra in ("", *options.extras):
            with tempfile.TemporaryDirectory() as folder:
                target = f"{wheel}[{extra}]" if extra else str(wheel)
                installation = install(sys.executable, target, Path(folder) / "environment")
                print(f"| {extra or 'core'} | {installation.megabytes:.0f} | {installation.seconds:.0f} |", flush=True)
    if len(roots) > 1:
        print("The evaluations differ between the environments.", file=sys.stderr)
    return int(len(roots) > 1)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CommandFailed as error:
        sys.exit(f"dev.versions: {error}")
