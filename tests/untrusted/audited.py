"""Run one command of mage over many folders in this process, and report every event that a record must not cause.

    python -m tests.untrusted.audited JOB.json

JOB.json holds `commands`, a list of argument lists, `allowed`, folders that may be opened, and `out`, the report.
"""

from __future__ import annotations

import io
import json
import os
import platform
import sys
import sysconfig
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

FORBIDDEN = {
    *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn", "subprocess.Popen"),
    *(
        "socket.connect",
        "socket.bind",
        "socket.sendto",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "webbrowser.open",
    ),
}
MAX_UNPACKED = 4 * 2**20
"""Bytes that a shard may unpack to here, so that the bombs cost little time."""
ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    installed = [str(ROOT), sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), "/dev/null", "/proc", "/sys"]
    allowed = tuple(os.path.realpath(path) for path in (*installed, *job["allowed"]))
    events: list[str] = []
    watching = [False]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not watching[0]:
            return
        if event in FORBIDDEN:
            events.append(f"{event} {str(arguments)[:200]}")
        elif event == "open" and isinstance(arguments[0], str | bytes):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            # A name that does not exist here is relative to a folder's handle, as in shutil.rmtree of a draft.
            if os.path.lexists(path) and not path.startswith(allowed):
                events.append(f"open {path}")
        elif event == "exec":
            name = getattr(arguments[0], "co_filename", "<unknown>")
            if not name.startswith("<") and not os.path.realpath(name).startswith(allowed):
                events.append(f"exec {name}")

    from benchmarks.__main__ import main as bench
    from benchmarks.records.about import _commit
    from mage_envs.files import bounded

    bounded.MAX_UNPACKED_BYTES = MAX_UNPACKED
    # These two start a program once per process (uname, git) and keep the answer; no record decides about them.
    platform.platform()
    _commit()
    sys.addaudithook(hook)
    report = []
    for arguments in job["commands"]:
        events.clear()
        stdout, stderr = io.StringIO(), io.StringIO()
        watching[0] = True
        try:
            with redirect_stdout(stdout), redirect_stderr(stderr):
                status: object = bench(arguments)
        except SystemExit as end:
            status = end.code
        except BaseException as error:
            status = f"{type(error).__name__}: {error}"
        finally:
            watching[0] = False
        told = {"out": stdout.getvalue()[:20_000], "err": stderr.getvalue()[:20_000], "events": list(events)}
        report.append({"arguments": arguments, "status": status, **told})
    Path(job["out"]).write_text(json.dumps(report))


if __name__ == "__main__":
    main()
