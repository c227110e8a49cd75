"""Worker's side of executors whose processes are started by Ray or Slurm, possibly on another machine."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnasium.vector.utils import CloudpickleWrapper

from mage_envs.benchmarks.executors.jobs import MakeWork, Work
from mage_envs.benchmarks.versions import package_versions, refuse_other_versions
from mage_envs.loading.imports import allow_paths, load_modules, readable_paths, user_modules
from mage_envs.processes.call_outcomes import CallError, attempt, portable

_HELD: dict[bytes, Work] = {}
"""Work that this process made last, by its pickled `make`. A worker process serves many jobs, even of later runs."""


@dataclass(frozen=True)
class Sent:
    """Picklable form of the work, with the modules, paths and package versions that it needs."""

    make: bytes
    imports: Sequence[str]
    paths: Sequence[Path]
    versions: Mapping[str, str]

    def __call__(self, job: Any) -> Any:
        """Run a job to its end. Return its result, or `CallError` if it raised or if the package versions differ."""
        outcome = attempt(self._do, job)
        # An exception that cannot be pickled would be lost on the way back.
        return portable(outcome) if isinstance(outcome, CallError) else outcome

    def _do(self, job: Any) -> Any:
        if self.make not in _HELD:
            # Checked before anything is unpickled, because other versions may unpickle to something else.
            refuse_other_versions(self.versions)
            load_modules(self.imports)
            allow_paths(self.paths)
            # The old work is dropped first: it may hold environments or a model in memory.
            _HELD.clear()
            _HELD[self.make] = pickle.loads(self.make)()
        work = _HELD[self.make]
        while (result := work(job)) is None:
            pass
        return result


def pack_work(make: MakeWork) -> Sent:
    """Return the work in its picklable form. Raise TypeError if it cannot be pickled."""
    try:
        return Sent(pickle.dumps(CloudpickleWrapper(make)), user_modules(), readable_paths(), package_versions())
    # Pickling runs code of the pickled objects, which may raise anything.
    except Exception as error:
        raise TypeError(f"The work cannot be sent to the workers, because it cannot be pickled: {error}") from error
