"""Settings of all tests: offline, a cache of their own, Ctrl-C enabled, one set of own modules, and one torch thread.

A test starts with the own modules of no other test. Torch uses one thread per process, because threads contend.
"""

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis  # loaded first: it counts references to generators, which frozen objects do not have
import pytest

# No example and no generation of one has a time limit, which a busy machine would exceed. The whole test has one.
hypothesis.settings.register_profile("mage", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("mage")

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Otherwise each worker and each process of a test would compile all modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

if "MAGE_ENVS_CACHE" not in os.environ:
    os.environ["MAGE_ENVS_CACHE"] = tempfile.mkdtemp(prefix="mage-envs-tests-")
    atexit.register(shutil.rmtree, os.environ["MAGE_ENVS_CACHE"], ignore_errors=True)

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as under `nohup make test &`; children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

SEARCHED: list[str] = []
GAMES = Path(__file__).resolve().parents[1] / "mage_envs" / "games"
DELETED = tuple(name for name in ("webshop", "alfworld", "sokoban", "openspiel") if not (GAMES / name).exists())
"""Large games whose folders were deleted, as `GameRecord.belongings` allows. Empty in a clone."""
THEIRS = {
    "openspiel": ("leduc", "liars", "negotiation", "connectfour", "breakthrough", "kuhn_poker"),
    "sokoban": ("controls", "boxoban"),
    "alfworld": ("house",),
    "webshop": ("customer",),
}
"""Large game to words by which an error may name one of its games or opponents."""


def _skip_without_game(report: pytest.CollectReport | pytest.TestReport, location: str) -> None:
    """Turn a failure into a skip if its error names a game that was deleted."""
    text = str(report.longrepr).lower()
    missing = [name for name in DELETED if any(word in text for word in (name, *THEIRS[name]))]
    if report.outcome == "failed" and missing:
        report.outcome = "skipped"
        report.longrepr = (location, 0, f"{missing[0]} was deleted")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    if DELETED:
        _skip_without_game(report, collector.nodeid)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if DELETED:
        _skip_without_game(report, item.nodeid)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect the tests without garbage collection: nearly everything that they load stays until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    SEARCHED[:] = sys.path
    # Later searches for garbage pass over the modules and the list of tests, and forks copy fewer of their pages.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    yield
    if nextitem is None or nextitem.path != item.path:
        # Game trees and models that earlier files cached stay until the end. Each training searches for garbage, and
        # would take seconds to pass over them.
        gc.collect()
        gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A command that a test ran in this process has added its current folder."""
    sys.path[:] = SEARCHED


@pytest.fixture(scope="module", autouse=True)
def _no_modules_of_other_files() -> Iterator[None]:
    """Forgets which modules `--import` named in this file: every worker process of later tests would import them."""
    from mage_envs.loading import imports

    modules_before = list(imports._IMPORTED)
    yield
    imports._IMPORTED[:] = modules_before
