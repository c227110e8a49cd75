"""A real Slurm on this machine, in a folder of its own: munged, slurmctld, slurmdbd with MariaDB, four times slurmd.

Slurm is the system's package, unchanged. Only its configuration is invented: each of the four nodes has 64 cores and 8
GPUs, which are empty files. Processes are not confined to the resources that they were granted, as they would be by
cgroups. The names of the nodes are addresses of this machine, so that every process can resolve them.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest import mock

NODES = [f"127.0.0.{number}" for number in range(1, 5)]
_NODES = "127.0.0.[1-4]"
CONFIGURATION = {
    "slurm.conf": """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge.socket
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={ports[1]}
AccountingStoragePass={folder}/munge.socket
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=5
ReturnToService=2
GresTypes=gpu
NodeName={nodes} NodeHostname={host} NodeAddr={nodes} Port=[{ports[2]}-{ports[5]}] CPUs=64 RealMemory=1000 Gres=gpu:8
PartitionName=cpu Nodes={nodes} Default=YES GraceTime=120
PartitionName=cancelled Nodes={nodes} PreemptMode=CANCEL
PartitionName=urgent Nodes={nodes} PriorityTier=2 PreemptMode=OFF
""",
    "gres.conf": "Name=gpu File={folder}/gpu[0-7]\n",
    "slurmdbd.conf": """\
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
DbdPort={ports[1]}
SlurmUser={user}
StorageType=accounting_storage/mysql
StorageUser={user}
StorageLoc=slurm
PidFile={folder}/slurmdbd.pid
""",
}
"""Jobs of `cpu` and `cancelled` give way to those of `urgent`: the first are queued again, the second end."""


class Slurm:
    """Inside of `with`, sbatch and the other commands reach the started cluster. After it, no process remains."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # short, for the sockets in it
        self._daemons: list[subprocess.Popen[bytes]] = []
        variables = {"SLURM_CONF": f"{self.folder}/slurm.conf", "MYSQL_UNIX_PORT": f"{self.folder}/db.socket"}
        self._environment = mock.patch.dict(os.environ, {**variables, "PATH": f"{os.environ['PATH']}:/usr/sbin"})

    def __enter__(self) -> Slurm:
        self._environment.start()
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End jobs first, then the daemons. Kill the remaining processes after ten seconds."""
        quiet = partial(subprocess.run, capture_output=True, check=False, timeout=60)
        quiet(["scancel", f"--user={getpass.getuser()}"])
        with contextlib.suppress(TimeoutError):
            until(lambda: not quiet(["squeue", "-h"]).stdout, 15)
        for ending in (signal.SIGTERM, signal.SIGKILL):
            for process in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, ending)
            with contextlib.suppress(TimeoutError):
                until(lambda: not self.processes(), 10)
        for daemon in self._daemons:
            daemon.wait()
        self._environment.stop()
        shutil.rmtree(self.folder)

    def processes(self, *words: str) -> list[int]:
        """Daemons and jobs: whose environment names this Slurm, and whose command line has the words."""
        process_ids = []
        for process_folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (process_folder / "cmdline").read_bytes().decode(errors="replace")
                ours = f"SLURM_CONF={self.folder}/".encode() in (process_folder / "environ").read_bytes()
                if ours and int(process_folder.name) != os.getpid() and all(word in command for word in words):
                    process_ids.append(int(process_folder.name))
        return process_ids

    def start_node(self, node: str) -> None:
        """One of NODES."""
        self._daemon("slurmd", "-D", "-N", node, log=node)

    def _start(self) -> None:
        folder, user = self.folder, getpass.getuser()
        folder.chmod(0o755)  # or munged refuses it
        values = {
            "folder": folder,
            "host": socket.gethostname(),
            "user": user,
            "nodes": _NODES,
            "ports": _free_ports(6),
        }
        for name, text in CONFIGURATION.items():
            (folder / name).touch(mode=0o600)
            (folder / name).write_text(text.format(**values))
        for number in range(8):
            (folder / f"gpu{number}").touch()
        (folder / "munge.key").touch(mode=0o600)
        (folder / "munge.key").write_bytes(secrets.token_bytes(128))
        munge = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
        self._daemon("munged", "--foreground", f"--socket={folder}/munge.socket", *munge)
        data = ["--no-defaults", f"--datadir={folder}/db"]
        run_command("mariadb-install-db", *data, "--auth-root-authentication-method=normal")
        mariadb = ["mariadbd", *data, f"--user={user}", f"--socket={folder}/db.socket", f"--pid-file={folder}/db.pid"]
        self._daemon(*mariadb, "--skip-networking", "--skip-grant-tables")
        until(lambda: _ends_well("munge", "--no-input", f"--socket={folder}/munge.socket"))
        until((folder / "db.socket").exists)
        self._daemon("slurmdbd", "-D")
        until(lambda: _ends_well("sacctmgr", "--noheader", "list", "cluster"))
        self._daemon("slurmctld", "-D")
        for node in NODES:
            self.start_node(node)
        until(all_idle)

    def _daemon(self, *command: str, log: str = "") -> None:
        """Start a daemon in the foreground. It ends with this process, even if this process is killed."""
        tied = ["setpriv", "--pdeathsig", "TERM", *command]
        with (self.folder / f"{log or command[0]}.out").open("a") as file:
            daemon = subprocess.Popen(
                tied, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=self.folder, start_new_session=True
            )
        self._daemons.append(daemon)


def run_command(*command: str | Path) -> str:
    """Return the output of a command. Raise CalledProcessError if it fails."""
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def until(true: Callable[[], object], seconds: float = 60) -> None:
    """Waits; raises TimeoutError."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"{seconds} seconds were not enough")
        time.sleep(0.2)


def all_idle() -> bool:
    """Return True if all nodes are up and idle."""
    process = subprocess.run(
        ["sinfo", "-h", "-N", "-p", "cpu", "-o", "%T"], capture_output=True, text=True, check=False
    )
    return process.stdout.split() == ["idle"] * len(NODES)


def _free_ports(number: int) -> list[int]:
    """Neighbours, as the configuration has a range of them."""
    with contextlib.ExitStack() as stack:
        first_port = stack.enter_context(socket.create_server(("", 0))).getsockname()[1]
        try:
            for port in range(first_port + 1, first_port + number):
                stack.enter_context(socket.create_server(("", port)))
        except (OSError, OverflowError):
            return _free_ports(number)
    return list(range(first_port, first_port + number))


def _ends_well(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
