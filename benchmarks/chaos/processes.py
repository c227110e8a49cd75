"""The processes of `mage-bench chaos`: what the checked code does in one, that process may not survive."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks.chaos.child import TRANSCRIPTS, CheckRequest
from benchmarks.chaos.places import place_of_dump
from benchmarks.chaos.playing import Finding, require_equal

HASH_SEEDS = ("0", "1", "2")
"""`PYTHONHASHSEED` of the processes whose transcripts must be equal."""
SILENCE = 40
"""Deadlines of a call without a record, after which a process is ended from outside."""
_HANGS = re.compile(r"^Timeout \((\d+):(\d+):(\d+)(\.\d+)?\)!$", re.MULTILINE)


@dataclass(frozen=True)
class Found:
    """What is wrong, and the seed that shows it."""

    check: str
    seed: int
    what: str
    trace: str = ""

    @property
    def cause(self) -> str:
        """Equal where two checks met the same: a loop may be left at any of its lines."""
        return re.sub(r":\d+ in ", " in ", self.what)


class CheckRow(NamedTuple):
    """One check that is done."""

    check: str
    seeds: int
    seconds: float
    found: Found | None


class CheckingChild:
    """A process of `benchmarks.chaos.child`, and what it records; it ends with the `with`."""

    def __init__(self, request: CheckRequest, hash_seed: str | None = None) -> None:
        self._request = request
        self._folder = TemporaryDirectory()
        self._path = Path(self._folder.name)
        request.write(self._path)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        if hash_seed is not None:
            environment["PYTHONHASHSEED"] = hash_seed
        command = [sys.executable, "-P", "-X", "faulthandler", "-m", "benchmarks.chaos.child", str(self._path)]
        with (self._path / "output.txt").open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
            )

    def __enter__(self) -> CheckingChild:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def records(self) -> Iterator[dict[str, Any]]:
        """As they come, until the process has ended. Raises ValueError where the environment could not be made."""
        last, text = time.monotonic(), ""
        (self._path / "records.jsonl").touch()
        with (self._path / "records.jsonl").open() as file:
            while True:
                ended = self._process.poll() is not None
                text += file.read()
                *lines, text = text.split("\n")
                for line in lines:
                    record: dict[str, Any] = json.loads(line)
                    if "unmade" in record:
                        raise ValueError(f"{self._request.env_id} could not be made: {record['unmade']}")
                    yield record
                if ended:
                    return
                if lines:
                    last = time.monotonic()
                elif time.monotonic() - last > SILENCE * self._request.deadline:
                    self._process.kill()
                time.sleep(0.02)

    def death(self) -> tuple[str, str]:
        """Why the process ended in the middle, and what it wrote."""
        output = (self._path / "output.txt").read_text(errors="replace")
        place, status = place_of_dump(output), self._process.returncode
        if waited := _HANGS.findall(output):
            hours, minutes, seconds, part = waited[-1]
            what = f"no answer within {int(hours) * 3600 + int(minutes) * 60 + int(seconds)}{part.rstrip('0')} s"
        elif status < 0:
            what = f"the process died of {signal.Signals(-status).name}"
        else:
            what = f"the process ended with status {status} in the middle"
        return (what if place is None else f"{what} ({place})"), output


def checked(request: CheckRequest) -> Iterator[CheckRow]:
    """The checks of a request in one process, and the rest of them in another where one ends it."""
    left = request.checks
    while left:
        done = 0
        for row in _until_death(replace(request, checks=left)):
            yield row
            done += 1
        left = left[done:]


def _until_death(request: CheckRequest) -> Iterator[CheckRow]:
    name, seed, seeds, found, began = "", request.seed, 0, None, time.monotonic()
    ended = 0
    with CheckingChild(request) as child:
        for record in child.records():
            if "began" in record:
                name, seed, seeds = record["began"], record["seed"], seeds + 1
            elif "found" in record:
                found = Found(name, seed, record["found"], record["trace"])
            elif "ended" in record:
                yield CheckRow(record["ended"], seeds, time.monotonic() - began, found)
                seeds, found, began, ended = 0, None, time.monotonic(), ended + 1
        if ended < len(request.checks):
            if not name:
                raise RuntimeError(f"{request.env_id} could not be made: {child.death()[0]}.")
            yield CheckRow(name, seeds, time.monotonic() - began, Found(name, seed, *child.death()))


def compared(request: CheckRequest) -> CheckRow:
    """The transcripts of several processes, each with a seed of its own for Python's hashes, beside each other."""
    began = time.monotonic()
    played: list[dict[int, list[str]]] = []
    found: Found | None = None
    for hash_seed in HASH_SEEDS:
        rows, seed, over = {}, request.seed, False
        with CheckingChild(replace(request, checks=[TRANSCRIPTS]), hash_seed) as child:
            for record in child.records():
                seed, over = record.get("seed", seed), over or "ended" in record
                if "rows" in record:
                    rows[seed] = record["rows"]
                elif "found" in record:
                    found = found or Found(TRANSCRIPTS, seed, record["found"], record["trace"])
            if not over:
                found = found or Found(TRANSCRIPTS, seed, *child.death())
        played.append(rows)
    for rows in played[1:]:
        for seed in rows.keys() & played[0].keys() if found is None else ():
            try:
                require_equal(rows[seed], played[0][seed], "another process gave another episode")
            except Finding as finding:
                found = found or Found(TRANSCRIPTS, seed, str(finding))
    return CheckRow(TRANSCRIPTS, len(played[0]), time.monotonic() - began, found)
