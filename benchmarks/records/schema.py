"""Schema of the files of a run: fields, types and the largest values that a reader accepts.

`python -m mage_envs.benchmarks.records.schema` prints the JSON Schema. docs/results-schema.md explains the fields.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from mage_envs.benchmarks.evaluation.suites.panels import MAX_META_EPISODES
from mage_envs.wrappers.meta_episode import MAX_EPISODES
from mage_envs.wrappers.rollout.line_schema import (
    MAX_SEAT,
    MAX_SEED,
    Count,
    FiniteFloat,
    Options,
    PlayedRecord,
    Seat,
    StrictRecord,
    TaskRecord,
    WholeNumber,
)

MAX_OPPONENTS = 1000
MAX_SUITE_RUNS = 10_000

Index = Annotated[int, Field(ge=0, lt=MAX_META_EPISODES)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}\z")]


Weighted = Annotated[tuple[str, WholeNumber | FiniteFloat], Field(strict=False)]
"""Name and weight of an opponent. A list is accepted, because JSON does not have tuples."""


class LineRecord(PlayedRecord):
    """Meta-episode: one line of `episodes/*.jsonl.gz`."""

    index: Index
    digest: Sha256


class ServedRecord(StrictRecord):
    """Id of the model that an endpoint serves, if it is known."""

    listed: str | None
    """Id in the server's list of models."""
    replied: str | None
    """Id in the server's replies."""


class AgentRecord(StrictRecord):
    """Identity of the agent of a run."""

    name: str
    content: str | None
    model: str | None = None
    """Name of the model in the requests to an endpoint."""
    served: ServedRecord | None = None
    request: Annotated[Options, Field(default_factory=dict)]
    sampling: Annotated[dict[str, WholeNumber | FiniteFloat], Field(default_factory=dict)]


class SettingOptions(BaseModel):
    """Resolved options of a setting. Readers use these three; all others are only compared."""

    # Other options depend on the environment, so unknown names are allowed here.
    model_config = ConfigDict(strict=True, extra="allow")
    __pydantic_extra__: dict[str, JsonValue]

    env_id: str
    memory: JsonValue
    num_episodes: Annotated[int, Field(ge=1, le=MAX_EPISODES)]


class SettingRecord(StrictRecord):
    """Setting of a run with all options resolved."""

    name: str
    options: SettingOptions
    weights: dict[str, WholeNumber | FiniteFloat]
    meta_episodes: Annotated[int, Field(ge=0, le=MAX_META_EPISODES)]
    tasks: Sha256


class PanelRecord(StrictRecord):
    """Panel of a run, from which its tasks are rebuilt."""

    name: str
    has_ids: bool
    env_id: str
    about: str
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)]
    size: Annotated[int, Field(ge=0, le=MAX_META_EPISODES)]
    rows_per_cell: Annotated[int, Field(ge=1, le=MAX_META_EPISODES)] | None
    opponents: str | Annotated[list[Weighted], Field(max_length=MAX_OPPONENTS)]
    seats: Annotated[list[Seat], Field(max_length=MAX_SEAT)]
    env_kwargs: Options
    by_weight: bool = False
    own_seeds: bool = False
    rows: Annotated[list[TaskRecord], Field(max_length=MAX_META_EPISODES)] | None = None
    """The tasks themselves, if a loop chose them."""


class RunRecord(StrictRecord):
    """Content of run.json."""

    # A field named `schema` would hide a method of pydantic's BaseModel.
    schema_version: Annotated[int, Field(ge=1, alias="schema")]
    agent: AgentRecord
    setting: SettingRecord
    fingerprint: Sha256
    panel: PanelRecord
    env_kwargs: Options
    imports: list[str]
    versions: dict[str, str]
    platform: str
    commit: str | None
    started: str
    argv: list[str]
    replies: str = ""
    """How the replies of a local model were played, if a probe found it; absent in other runs."""


class RootRecord(StrictRecord):
    """Content of root.json."""

    count: Count
    planned: Annotated[int, Field(ge=0, le=MAX_META_EPISODES)]
    missing: list[Index]
    failed: list[Index]
    root: Sha256


class AttestationRecord(StrictRecord):
    """Statement of a verifier on a run, `<root>.json`. docs/publish.md explains the fields."""

    # A field named `schema` would hide a method of pydantic's BaseModel.
    schema_version: Annotated[int, Field(ge=1, le=1, alias="schema")]
    root: Sha256
    fingerprint: Sha256
    agent: str
    method: Literal["executed", "challenged"]
    agreed: bool
    meta_episodes: Count
    equal: Count | None
    nonce: str | None
    measure: str | None
    recorded: WholeNumber | FiniteFloat | None
    found: WholeNumber | FiniteFloat | None
    half: WholeNumber | FiniteFloat | None


class SuiteRunRecord(BaseModel):
    """Entry of a suite for one run."""

    model_config = ConfigDict(strict=True, extra="allow")

    folder: Annotated[str, Field(pattern=r"^[\w.+-]+(/[\w.+-]+)*\z")]
    """Path relative to the suite's folder."""
    fingerprint: Sha256 | None
    """Fingerprint of the setting, or None if another run has to be played first."""
    root: Sha256 | None = None


class SuiteRecord(BaseModel):
    """Content of suite.json."""

    model_config = ConfigDict(strict=True, extra="allow")

    runs: Annotated[list[SuiteRunRecord], Field(max_length=MAX_SUITE_RUNS)]
    root: Sha256 | None = None


if __name__ == "__main__":
    schemas = {kind.__name__: kind.model_json_schema() for kind in (RunRecord, LineRecord, RootRecord, SuiteRecord)}
    sys.stdout.write(json.dumps(schemas, indent=2) + "\n")
