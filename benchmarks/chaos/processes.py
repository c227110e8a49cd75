"""Child processes of `mage check`. The checked code may kill or block its process, so it never runs in ours."""

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

from mage_envs.benchmarks.chaos.child import TRANSCRIPTS, CheckRequest, place_of_dump
from mage_envs.testing import Finding, require_equal

HASH_SEEDS = ("0", "1", "2")
"""Values of `PYTHONHASHSEED`, one per process. The transcripts of these processes must be equal."""
SILENCE = 40
"""Time without a record after which a process is killed, as a multiple of the timeout per call."""
_HANGS = re.compile(r"^Timeout \((\d+):(\d+):(\d+)(\.\d+)?\)!$", re.MULTILINE)


@dataclass(frozen=True)
class Found:
    """Finding of a check, with the seed that reproduces it."""

    check: str
    seed: int
    what: str
    trace: str = ""

    @property
    def cause(self) -> str:
        """The finding without line numbers, equal for two checks that fail for the same cause."""
        # A loop that hangs is interrupted at any of its lines.
        return re.sub(r":\d+ in ", " in ", self.what)


class CheckRow(NamedTuple):
    """Result of one finished check."""

    check: str
    seeds: int
    seconds: float
    found: Found | None


class CheckingChild:
    """Child process of `mage_envs.benchmarks.chaos.child` as a context manager, which kills the process on exit."""

    def __init__(self, request: CheckRequest, hash_seed: str | None = None) -> None:
        self._request = request
        self._folder = TemporaryDirectory()
        self._path = Path(self._folder.name)
        request.write(self._path)
        # An empty entry of sys.path means the current folder, which -P below would keep out of the child's path.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        if hash_seed is not None:
            environment["PYTHONHASHSEED"] = hash_seed
        command = [
            sys.executable,
            "-P",
            "-X",
            "faulthandler",
            "-m",
            "mage_envs.benchmarks.chaos.child",
            str(self._path),
        ]
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
        """Yield the child's records as they appear, until the process has ended.

        Raises:
            ValueError: If the environment could not be made.
        """
        last_record_at, text = time.monotonic(), ""
        (self._path / "records.jsonl").touch()
        with (self._path / "records.jsonl").open() as file:
            while True:
                # Polled before the read: a process that has ended writes no further lines after this read.
                has_ended = self._process.poll() is not None
                text += file.read()
                *lines, text = text.split("\n")
                for line in lines:
                    record: dict[str, Any] = json.loads(line)
                    if "unmade" in record:
                        raise ValueError(f"{self._request.env_id} could not be made: {record['unmade']}")
                    yield record
                if has_ended:
                    return
                if lines:
                    last_record_at = time.monotonic()
                # The child limits only the environment's calls and copies; its spaces may hang outside of them.
                elif time.monotonic() - last_record_at > SILENCE * self._request.deadline:
                    self._process.kill()
                time.sleep(0.02)

    def death(self) -> tuple[str, str]:
        """Return the reason why the process ended before its checks did, and its output."""
        output = (self._path / "output.txt").read_text(errors="replace")
        location, status = place_of_dump(output), self._process.returncode
        if waited := _HANGS.findall(output):
            hours, minutes, seconds, part = waited[-1]
            reason = f"no answer within {int(hours) * 3600 + int(minutes) * 60 + int(seconds)}{part.rstrip('0')} s"
        elif status < 0:
            reason = f"the process died of {signal.Signals(-status).name}"
        else:
            reason = f"the process ended early with status {status}"
        return (reason if location is None else f"{reason} ({location})"), output


def run_checks(request: CheckRequest) -> Iterator[CheckRow]:
    """Run the checks of a request in one process; if a check ends it, run the remaining checks in a new one."""
    remaining = request.checks
    while remaining:
        count = 0
        for row in _until_death(replace(request, checks=remaining)):
            yield row
            count += 1
        remaining = remaining[count:]


def _until_death(request: CheckRequest) -> Iterator[CheckRow]:
    name, seed, seeds, finding, began = "", request.seed, 0, None, time.monotonic()
    count = 0
    with CheckingChild(request) as child:
        for record in child.records():
            if "began" in record:
                name, seed, seeds = record["began"], record["seed"], seeds + 1
            elif "found" in record:
                finding = Found(name, seed, record["found"], record["trace"])
            elif "ended" in record:
                yield CheckRow(record["ended"], seeds, time.monotonic() - began, finding)
                seeds, finding, began, count = 0, None, time.monotonic(), count + 1
        if count < len(request.checks):
            # No check has begun, so the process died in an import or in gym.make; another process would, too.
            if not name:
                raise RuntimeError(f"{request.env_id} could not be made: {child.death()[0]}.")
            yield CheckRow(name, seeds, time.monotonic() - began, Found(name, seed, *child.death()))


def compare_processes(request: CheckRequest) -> CheckRow:
    """Compare the transcripts of several processes, each with a different seed of Python's hashes."""
    began = time.monotonic()
    transcripts: list[dict[int, list[str]]] = []
    found_failure: Found | None = None
    for hash_seed in HASH_SEEDS:
        rows, seed, over = {}, request.seed, False
        with CheckingChild(replace(request, checks=[TRANSCRIPTS]), hash_seed) as child:
            for record in child.records():
                seed, over = record.get("seed", seed), over or "ended" in record
                if "rows" in record:
                    rows[seed] = record["rows"]
                elif "found" in record:
                    found_failure = found_failure or Found(TRANSCRIPTS, seed, record["found"], record["trace"])
            if not over:
                found_failure = found_failure or Found(TRANSCRIPTS, seed, *child.death())
        transcripts.append(rows)
    for rows in transcripts[1:]:
        # Only seeds that both processes played; if one of them failed, that finding is already reported.
        for seed in rows.keys() & transcripts[0].keys() if found_failure is None else ():
            try:
                require_equal(rows[seed], transcripts[0][seed], "another process gave a different episode")
            except Finding as finding:
                found_failure = found_failure or Found(TRANSCRIPTS, seed, str(finding))
    return CheckRow(TRANSCRIPTS, len(transcripts[0]), time.monotonic() - began, found_failure)
