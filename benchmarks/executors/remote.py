"""The worker's end of an executor whose processes are started by somebody else, perhaps on another machine."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gymnasium.vector.utils import CloudpickleWrapper

from benchmarks.executors.jobs import MakeWork, Work
from benchmarks.versions import package_versions, refuse_other_versions
from mage_envs.imports import imported, load_modules, search_current_folder
from mage_envs.processes import Raised, attempt
from mage_envs.processes.outcomes import portable

_HELD: dict[bytes, Work] = {}
"""What this process made last: a worker process serves many jobs of a run, and is kept for the next run."""


@dataclass(frozen=True)
class Sent:
    """Work as it travels."""

    make: bytes
    imports: Sequence[str]
    versions: Mapping[str, str]

    def __call__(self, job: Any) -> Any:
        """Does a job to its end: its result, or `Raised`. A worker with other packages refuses."""
        outcome = attempt(self._do, job)
        return portable(outcome) if isinstance(outcome, Raised) else outcome

    def _do(self, job: Any) -> Any:
        if self.make not in _HELD:
            refuse_other_versions(self.versions)
            search_current_folder()
            load_modules(self.imports)
            _HELD.clear()
            _HELD[self.make] = pickle.loads(self.make)()
        work = _HELD[self.make]
        while (result := work(job)) is None:
            pass
        return result


def sent(make: MakeWork) -> Sent:
    """The work, with what its workers need. Raises TypeError where it cannot be sent."""
    try:
        return Sent(pickle.dumps(CloudpickleWrapper(make)), imported(), package_versions())
    except Exception as error:  # pickling runs the code of whatever is sent
        raise TypeError(f"What workers need cannot be sent to them: {error}") from error
