"""Parts that can be deleted: without their folder every other command works as before."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mage_envs.game_record import RECORDS
from tests.processes import ROOT

PACKAGES = ("mage_envs", "opponents", "wrappers", "trainer", "benchmarks", "pyproject.toml")
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("list",),
    ("list", "KuhnPoker"),
    ("list", "panels"),
    ("doctor",),
    ("headroom", "KuhnPoker", "--opponents", "pool:kuhn/paper"),
    ("eval", "policy:kuhn/nash", "scripted:random", "--panel", "kuhn-paper-16", "--out", "runs"),
    ("report", "runs/scripted-random", "--out", "report.html"),
    ("verify", "runs/scripted-random", "--replay"),
    ("compare", "runs/scripted-random", "runs/policy-kuhn-nash"),
    ("export", "runs/scripted-random", "--to", "csv", "--out", "calls.csv"),
    ("regret", "runs/policy-kuhn-nash"),
    ("tournament", "KuhnPoker", "--opponents", "uniform,kuhn/rock", "--games", "4"),
    ("adapt", "policy:myopic", "--suite", "adapt-mini", "--no-controls", "--dry-run"),
    ("play", "KuhnPoker"),
    ("train", "--preset", "mage-kuhn", "--model", "words", "--dry-run"),
    ("paper", "ablation-4.4.3"),
    ("serve", "openenv", "--help"),
    *((name, "--help") for name in ("check", "exploit", "demo", "play")),
)
"""A short call of each command, in an order in which runs exist when they are read."""
RUN = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from mage_envs.cli.program import main
results = []
for words in json.loads(sys.argv[1]):
    sys.stdin = io.StringIO("quit\\n")
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main(words)
        except SystemExit as end:
            status = end.code or 0
    results.append([status, out.getvalue(), err.getvalue()])
print(json.dumps(results))
"""
PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **{name: (record.belongings, ()) for name, record in RECORDS.items() if record.belongings},
    "trainer": (("trainer",), ("train", "paper", "exploit", "demo")),
    "tournaments": (("benchmarks/tournaments",), ("tournament",)),
    "arena and play": (("benchmarks/play",), ("play",)),
    "chaos": (("benchmarks/chaos",), ("check",)),
    "sweeps": (("benchmarks/sweeps",), ("paper",)),
    "paper": (("benchmarks/paper",), ("paper",)),
    "comparison, leaderboard and attestation": (("benchmarks/comparison",), ("compare",)),
    "adapters": (("wrappers/adapters",), ("serve",)),
    "demo": (("benchmarks/demo",), ("demo",)),
    "executors of clusters": (("benchmarks/clusters", "tests/cluster"), ()),
    "memories of papers": (("wrappers/baselines",), ()),
}
"""Part to its paths, and the commands that need it."""


def copy_without(folder: Path, patterns: Sequence[str]) -> None:
    """Copy the packages as a clone has them, and delete the paths."""
    for name in PACKAGES:
        source = ROOT / name
        if source.is_file():
            shutil.copy(source, folder)
            continue
        ignored = shutil.ignore_patterns("__pycache__", "results")
        shutil.copytree(source, folder / name, symlinks=True, ignore=ignored)
    for pattern in patterns:
        paths = list(folder.glob(pattern))
        assert paths or pattern.split("/")[0] not in PACKAGES, pattern
        for path in paths:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


SHORT = ("WebShop", "OpenSpiel", "trainer")
"""Parts that `make test-more` removes; `make test-long` removes all."""


@pytest.mark.more
@pytest.mark.parametrize(
    "part", [part if part in SHORT else pytest.param(part, marks=pytest.mark.slow) for part in PARTS]
)
def test_without_a_part_the_other_commands_work(part: str, tmp_path: Path) -> None:
    patterns, needing = PARTS[part]
    clone, work = tmp_path / "clone", tmp_path / "work"
    clone.mkdir()
    work.mkdir()
    copy_without(clone, patterns)
    words = [line for line in COMMANDS if line[0] not in needing]
    environment = os.environ | {"PYTHONPATH": str(clone), "HF_HUB_OFFLINE": "1", "MAGE_ENVS_CACHE": str(tmp_path / "c")}
    process = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(words)],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    results = json.loads(process.stdout.splitlines()[-1])
    failed = {" ".join(line): result for line, result in zip(words, results, strict=True) if result[0] != 0}
    assert failed == {}


MOVED = {
    "mage_envs.games.webshop_customer": "foreign_shop.webshop_customer",
    "mage_envs.games.webshop": "foreign_shop.webshop",
    "mage_envs.opponents.games.webshop": "foreign_shop.opponents.webshop",
    "mage_envs.opponents.solo.webshop": "foreign_shop.solo.webshop",
    "mage_envs.opponents.solo.shopper": "foreign_shop.solo.shopper",
}
"""Modules of WebShop to their names in a package of its own."""
SHOPPING: tuple[tuple[str, ...], ...] = (
    ("list",),
    ("list", "panels"),
    ("headroom", "WebShopCustomer", "--opponents", "pool:customer/fit", "--game-option", "kind=fit"),
    ("train", "--preset", "mage-webshop", "--model", "tiny", "--dry-run"),
    ("train", "--preset", "mage-customer", "--model", "tiny", "--dry-run"),
    ("eval", "policy:webshop/rule", "--env", "WebShop", "--rows", "2", "--game-option", "size=tiny", "--out", "shop"),
    ("eval", "policy:customer/memory", "--env", "WebShopCustomer", "--rows", "1", "--out", "customer"),
    ("doctor", "webshop:tiny", "--json"),
)
"""Commands whose output and roots are the same, wherever the game comes from."""


def ship_apart(folder: Path) -> None:
    """Write WebShop as a package of its own, which announces its records."""
    package = folder / "foreign_shop"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("webshop", "webshop_customer"):
        shutil.copytree(ROOT / "mage_envs" / "games" / name, package / name, ignore=ignored)
    for kind, target in (("games", "opponents"), ("solo", "solo")):
        (package / target).mkdir()
        for pattern in ("webshop*.py", "shopper*.py"):
            for path in (ROOT / "opponents" / kind).glob(pattern):
                shutil.copy(path, package / target)
    for path in package.rglob("*.py"):
        text = path.read_text()
        for name, moved in MOVED.items():
            text = text.replace(name, moved)
        path.write_text(text)
    about = folder / "foreign_shop-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign-shop\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[mage_envs.records]\nshop = foreign_shop.webshop.record:RECORDS\n")


@pytest.mark.slow
def test_a_game_in_a_package_of_its_own_is_the_same(tmp_path: Path) -> None:
    clone, foreign = tmp_path / "clone", tmp_path / "foreign"
    clone.mkdir()
    copy_without(clone, RECORDS["WebShop"].belongings)
    ship_apart(foreign)
    reports, roots = [], []
    for label, path in (("in the tree", str(ROOT)), ("apart", os.pathsep.join([str(clone), str(foreign)]))):
        work = tmp_path / label
        work.mkdir()
        cache = str(work / "cache")
        process = subprocess.run(
            [sys.executable, "-W", "error", "-c", RUN, json.dumps(SHOPPING)],
            cwd=work,
            env=os.environ | {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "MAGE_ENVS_CACHE": cache},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert process.returncode == 0, process.stderr
        results = json.loads(process.stdout.splitlines()[-1])
        assert [result for result in results if result[0] != 0] == []
        # CPU seconds differ from run to run.
        reports.append([re.sub(r"[\d.]+ CPU s|[\d.]+ s\b", "", result[1]) for result in results])
        roots.append([(work / name / "root.json").read_bytes() for name in ("shop", "customer")])
    assert sorted(reports[1][0].split()) == sorted(reports[0][0].split())
    assert sorted(reports[1][1].splitlines()) == sorted(reports[0][1].splitlines())
    assert reports[1][2:] == reports[0][2:]
    assert roots[1] == roots[0]
