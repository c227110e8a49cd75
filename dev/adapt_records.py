"""Records of the reference rows of `adapt` and `adapt-mini`, in one archive each, and the scores that follow from them.

    python -m dev.adapt_records --pack RUNS     # write the archive of adapt-mini from RUNS/NAME of mage adapt --out
    python -m dev.adapt_records                 # validate and replay its records, and write adapt_mini.txt
    python -m dev.adapt_records --suite adapt   # the same for adapt, whose scores must be those of mage adapt's rows

`python -m dev.adapt_cells --references` writes the archive of `adapt`. An archive has no scores and no reports, because
both follow from the records. It stores the shards of a run without their own compression, so that equal prompts of all
runs are compressed together. `unpack` restores the folders.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from mage_envs.benchmarks.evaluation.suites.adapt import MINI, REFERENCES
from mage_envs.benchmarks.records.record_store import EPISODES, ROOT, RUN, SUITE, Records, read_suite
from mage_envs.benchmarks.scale.adapt_table import AdaptResult
from mage_envs.benchmarks.scale.scale_text import LEGEND, score_text
from mage_envs.benchmarks.scale.stored_suites import NONE, OTHER, read_stored_suite, restore_sources
from mage_envs.cli.program import main as mage
from mage_envs.cli.tables import Block, TextTable, as_text
from mage_envs.files.atomic import write_atomically

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
ARCHIVE = RESULTS / "adapt_records.tar.xz"
"""Records of `adapt-mini`."""
FULL_ARCHIVE = RESULTS / "adapt_full_records.tar.xz"
"""Records of `REFERENCES` in all cells."""
STORED = Path(__file__).parents[1] / "benchmarks" / "evaluation" / "suites" / "adapt_references.json"
"""Scores of `REFERENCES`, which `mage adapt` shows beside those of an agent."""
TABLE = RESULTS / "adapt_mini.txt"
ROUNDING = 1e-9
"""Difference of two levels that is rounding."""
PACKED = ".jsonl"
"""Suffix of a shard in the archive, in place of `.jsonl.gz`."""
ROWS = {
    "random": "random play",
    "nash": "an equilibrium of each game; knows the rules alone",
    "counting": "best response to counted play; knows the rules alone",
    "no-memory": "the best play that forgets between episodes",
    "myopic": "best for each episode by itself, with memory",
    "bayes": "optimum for the sum of the episodes",
}
"""Name of a row to its description."""


def pack(runs: Path, file: Path = ARCHIVE, names: Sequence[str] = tuple(ROWS)) -> None:
    """Write an archive of the folders `runs`/NAME."""
    with tarfile.open(file, "w:xz", preset=9) as archive:
        for name in names:
            folder = runs / name
            plan = read_suite(folder)
            if plan is None:
                raise ValueError(f"{folder} holds no suite. Play it with mage adapt … --suite SUITE --out {folder}.")
            _add(archive, f"{name}/{SUITE}", (folder / SUITE).read_bytes())
            for run in plan["runs"]:
                for about in (RUN, ROOT):
                    if (path := folder / run["folder"] / about).exists():
                        _add(archive, f"{name}/{run['folder']}/{about}", path.read_bytes())
                for path in sorted((folder / run["folder"] / EPISODES).glob("*.jsonl.gz")):
                    inside = path.relative_to(runs).as_posix().removesuffix(".gz")
                    _add(archive, inside, gzip.decompress(path.read_bytes()))


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    # A fresh entry has no owner and the time 0, so equal records are equal bytes.
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def unpack(folder: Path, names: Sequence[str] = tuple(ROWS), file: Path = ARCHIVE) -> None:
    """Restore the folders of these rows of an archive below `folder`."""
    with tarfile.open(file) as archive:
        members = [member for member in archive.getmembers() if member.name.partition("/")[0] in names]
        archive.extractall(folder, members, filter="data")
    for path in folder.rglob(f"*/{EPISODES}/*{PACKED}"):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        path.unlink()


def runs_of(folder: Path) -> list[Path]:
    """Return the folders of the runs of a suite. Raise ValueError if it is no suite."""
    plan = read_suite(folder)
    if plan is None:
        raise ValueError(f"{folder} holds no suite.")
    return [folder / run["folder"] for run in plan["runs"]]


def table_of(folder: Path, names: Sequence[str] = tuple(ROWS)) -> list[Block]:
    """Return the table of the rows below `folder`."""
    rows = []
    for name in names:
        result = AdaptResult.of(read_stored_suite(folder / name, partial=True))
        levels = result.cell_levels()
        level_texts = [score_text(levels.get(cell)) for cell in MINI]
        counts = [len(Records(run).lines) for run in runs_of(folder / name)]
        size = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        scores = [result.level(), result.difference(NONE), result.difference(OTHER)]
        rows.append([name, *level_texts, *map(score_text, scores), size])
    return [
        "Reference rows of adapt-mini, computed from adapt_records.tar.xz: level, ± half a 95% interval",
        "",
        TextTable(["agent", *MINI, "mean", "own memory", "other's memory", "n"], rows),
        "",
        *LEGEND,
        "mean: over the families of cells with a level, a cell at least -1. n: meta-episodes of each cell.",
        *(f"{name}: {ROWS[name]}" for name in names),
    ]


def verify_rows(folder: Path, names: Sequence[str] = tuple(ROWS)) -> None:
    """Validate and replay rows below `folder`. Raise ValueError if a run is not valid, or if its replay differs."""
    for name in names:
        restore_sources(folder / name)
        for check in (["verify"], ["verify", "--replay"]):
            if mage([*check, str(folder / name)]):
                raise ValueError(f"mage {' '.join(check)} does not accept the records of {name}.")


def check_references(folder: Path, names: Sequence[str] = REFERENCES) -> None:
    """Raise ValueError if the records below `folder` have other levels than `STORED`."""
    stored = json.loads(STORED.read_text("utf-8"))
    for name in names:
        result = AdaptResult.of(read_stored_suite(folder / name, partial=True))
        for cell, level in result.cell_levels().items():
            if level is not None and abs(level.mean - stored[name][cell]["mean"]) > ROUNDING:
                raise ValueError(f"{name}, {cell}: the records have the level {level.mean}, {STORED.name} another one.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", type=Path, metavar="RUNS", help="write the archive from the folders of the rows")
    parser.add_argument("--suite", choices=("adapt", "adapt-mini"), default="adapt-mini", help="suite to verify")
    options = parser.parse_args()
    if options.pack:
        pack(options.pack)
        raise SystemExit
    with TemporaryDirectory() as scratch:
        if options.suite == "adapt":
            unpack(Path(scratch), REFERENCES, FULL_ARCHIVE)
            verify_rows(Path(scratch), REFERENCES)
            check_references(Path(scratch))
        else:
            unpack(Path(scratch))
            verify_rows(Path(scratch))
            write_atomically(TABLE, as_text(table_of(Path(scratch))))
            sys.stdout.write(TABLE.read_text("utf-8"))
