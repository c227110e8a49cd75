"""Run one command of mage over many folders in this process, and report every event that a record must not cause.

    python -m tests.untrusted.audited JOB.json

JOB.json holds `commands`, a list of argument lists, `allowed`, folders that may be opened, and `out`, the report. With
`foreign`, a list of folders, the report also has the accesses to them by other modules than `READERS` and `WRITERS`. A
server's pages at `visits`, by a word of the command, are read once, and then it is interrupted.
"""

from __future__ import annotations

import io
import json
import os
import platform
import signal
import sys
import sysconfig
import threading
import time
import urllib.request
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
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
READERS = {
    "mage_envs/files/bounded.py",
    "trainer/backends/model_folder.py",
    "trainer/backends/shards.py",
    "trainer/backends/weights.py",
    # TRL loads the model, whose folder was checked before.
    "trainer/trl/mage_trainer.py",
    # They read files of a catalogue that `read_manifest` has opened through the door before.
    "mage_envs/files/atomic.py",
    "mage_envs/games/webshop/store.py",
    "mage_envs/games/webshop/search/arrays.py",
}
"""Modules that may open a file in a folder that this process did not make."""
WRITERS = {
    "mage_envs/files/atomic.py",
    "mage_envs/files/bounded.py",
    "mage_envs/files/locking.py",
    "benchmarks/records/record_store.py",
    "benchmarks/records/shard_lines.py",
    # It makes the folder of each run, and refuses a link.
    "benchmarks/sweeps/training.py",
}
"""Modules that may write there, in a run that the user resumes."""
CHANGES = {
    *("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod"),
    *("shutil.copyfile", "shutil.copytree", "shutil.move", "shutil.rmtree"),
}


def caller() -> str:
    """Return the innermost file of the project on the stack, relative to its root."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        path = os.path.realpath(frame.f_code.co_filename)
        if path.startswith(f"{ROOT}{os.sep}") and not path.startswith((str(ROOT / "tests"), sys.prefix)):
            return os.path.relpath(path, ROOT)
        frame = frame.f_back
    return ""


def past_the_door(event: str, arguments: tuple[Any, ...], foreign: tuple[str, ...]) -> str | None:
    """Return a description of an access to a foreign folder by a module that must not, else None."""
    if event == "pickle.find_class":
        by = caller()
        is_allowed = by.startswith("mage_envs/processes/") or by in ("trainer/backends/shards.py", "")
        return None if is_allowed else f"unpickle {arguments[1:]} by {by}"
    if event != "open" and event not in CHANGES:
        return None
    paths = [os.path.realpath(os.fsdecode(path)) for path in arguments[:2] if isinstance(path, str | bytes)]
    if not any(path.startswith(foreign) for path in paths):
        return None
    by = caller()
    flags = arguments[2] if event == "open" and isinstance(arguments[2], int) else 0
    writes = event != "open" or bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))
    if by == "mage_envs/files/atomic.py" and all(map(os.path.isdir, paths)):
        # A folder is opened to wait until its list of files is on the disk.
        return None
    return None if by in (WRITERS if writes else READERS) else f"{event} {paths} by {by}"


def visit(address: str) -> None:
    """Read a page as soon as a server answers, and interrupt the command that serves it."""
    for _ in range(200):
        try:
            with urllib.request.urlopen(address, timeout=20) as page:
                page.read()
            break
        except OSError:
            time.sleep(0.1)
    signal.raise_signal(signal.SIGINT)


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    installed = [str(ROOT), sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), "/dev/null", "/proc", "/sys"]
    allowed = tuple(os.path.realpath(path) for path in (*installed, *job["allowed"]))
    foreign = tuple(os.path.realpath(path) + os.sep for path in job.get("foreign", ()))
    events: list[str] = []
    watching = [False]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not watching[0]:
            return
        if foreign and (access := past_the_door(event, arguments, foreign)) is not None:
            events.append(f"past the door: {access}")
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

    from mage_envs.benchmarks.records.about import _commit
    from mage_envs.cli.program import main as bench
    from mage_envs.files import bounded

    bounded.MAX_UNPACKED_BYTES = MAX_UNPACKED
    # These two start a program once per process (uname, git) and keep the answer; no record decides about them.
    platform.platform()
    _commit()
    sys.addaudithook(hook)
    # The arena ends the process at once if a thread still solves a game. Here other commands follow.
    leave, os._exit = os._exit, sys.exit
    report = []
    for arguments in job["commands"]:
        events.clear()
        stdout, stderr = io.StringIO(), io.StringIO()
        if address := next(filter(None, map(job.get("visits", {}).get, arguments)), None):
            threading.Thread(target=visit, args=(address,), daemon=True).start()
        start_time = time.monotonic()
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
        outputs = {"out": stdout.getvalue()[:20_000], "err": stderr.getvalue()[:20_000], "events": list(events)}
        report.append({"arguments": arguments, "status": status, "seconds": time.monotonic() - start_time, **outputs})
    Path(job["out"]).write_text(json.dumps(report))
    leave(0)


if __name__ == "__main__":
    main()
