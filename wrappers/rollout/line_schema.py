"""Data types of the lines that runs store: fields, types and the largest values that a reader accepts.

A meta-episode has this form in an evaluation's records and in a training's transcripts. The largest values are far
above those of any real run. They prevent a forged file from making a reader compute for hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError, model_validator

from mage_envs.env import MAX_HANDS
from mage_envs.wrappers.meta_episode import MAX_EPISODES

MAX_SEED = 2**53 - 1
"""Largest whole number up to which JSON clients with 64-bit floats are exact."""
MAX_COUNT = 2**53 - 1
"""Maximum of turns, tokens and other counts, which a reader adds up but never iterates to."""
MAX_NUMBER = 1e100
"""Largest reward, value or metric. Sums of squares of larger ones overflow."""
MAX_SEAT = 99
MAX_MESSAGE = 200
"""Maximum characters of one problem's message."""

Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Seat = Annotated[int, Field(ge=0, le=MAX_SEAT)]
WholeNumber = Annotated[int, Field(ge=-int(MAX_NUMBER), le=int(MAX_NUMBER))]
FiniteFloat = Annotated[float, Field(allow_inf_nan=False, ge=-MAX_NUMBER, le=MAX_NUMBER)]
# JSON has no NaN and no infinities, so `lines.plain` writes them as these three strings.
Number = WholeNumber | FiniteFloat | Literal["NaN", "Infinity", "-Infinity"]
Options = dict[str, JsonValue]
NoText = Literal["refusal", "tool_calls", "empty"]


class StrictRecord(BaseModel):
    """JSON object with exactly these fields. `1.5` and `"1"` are not accepted as whole numbers."""

    model_config = ConfigDict(strict=True, extra="forbid")


class MessageRecord(StrictRecord):
    role: Literal["user", "assistant"]
    content: str


class TaskRecord(StrictRecord):
    env_id: str
    opponent: str | None
    seat: Seat | None
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)]
    task_id: str | None
    rotation: Annotated[int, Field(ge=0)] = 0


class EpisodeResultRecord(StrictRecord):
    reward: Number
    value: Number
    hands: Annotated[int, Field(ge=0, le=MAX_HANDS)]
    success: bool
    timeout: bool
    seats: list[Seat]
    metrics: dict[str, Number]
    outcome: Literal["", "success", "failure", "draw"]
    ended_with: list[str]


class CallRecord(StrictRecord):
    kind: str
    phase: Literal["play", "reflect"]
    episode: Annotated[int, Field(ge=0, lt=MAX_EPISODES)]
    hand: Count
    turn: Count
    seat: Seat
    messages: Annotated[list[MessageRecord], Field(min_length=1)]
    fresh: bool
    shortened: Count
    observation: str
    information_state: str
    legal_actions: list[str]
    reply: str
    truncated: bool
    action: str | None
    invalid_reason: Literal["invalid", "length", "overflow"] | NoText | None
    penalty: Number
    reward: Number
    hand_end: bool
    tokens: Annotated[list[Count], Field(min_length=2, max_length=2)] | None
    memory_events: list[Options]
    reasoning: str | None = None


class FailedReplyRecord(StrictRecord):
    text: str
    truncated: bool
    overflow: bool
    shortened: Count
    no_text: NoText | None = None
    reasoning: str | None = None


class OpponentCallRecord(StrictRecord):
    key: str
    model: str
    text: str
    truncated: bool
    overflow: bool
    error: str | None = None
    no_text: NoText | None = None
    reasoning: str | None = None


class PlayedRecord(StrictRecord):
    """Meta-episode, without its position in a run."""

    task: TaskRecord
    category: str | None
    played: str | None
    opponent: str
    seat0: Seat | None
    retries: Count
    failure: str | None
    num_episodes: Annotated[int, Field(ge=1, le=MAX_EPISODES)]
    episodes: Annotated[list[EpisodeResultRecord], Field(max_length=MAX_EPISODES)]
    calls: list[CallRecord]
    failed_reply: FailedReplyRecord | None = None
    seconds: list[Annotated[FiniteFloat, Field(ge=0)] | Count]
    opponent_calls: list[OpponentCallRecord] = []

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        # Readers go through these lists together.
        if len(self.seconds) != len(self.calls):
            raise ValueError(f"{len(self.calls)} calls have {len(self.seconds)} durations")
        if len(self.episodes) > self.num_episodes or any(call.episode >= self.num_episodes for call in self.calls):
            raise ValueError(f"it has more than {self.num_episodes} episodes")
        return self


class TrainedCallRecord(CallRecord):
    advantage: Number


class TranscriptRecord(PlayedRecord):
    """Line of a training's transcripts.jsonl."""

    step: Count
    rollout: Count
    group: Count
    member: Count
    # Narrower than in the base class. A list is invariant for mypy, but pydantic only validates.
    calls: list[TrainedCallRecord]  # type: ignore[assignment]


class MetricRecord(BaseModel):
    """Line of a training's metrics.jsonl. All further fields are numbers."""

    model_config = ConfigDict(strict=True, extra="allow")
    __pydantic_extra__: dict[str, int | float]

    kind: Literal["rollout", "update", "eval"]
    step: Count
    rollout: Count
    measure: Literal["success", "value"] = "success"
    """Headline measure of the game."""
    table: str = ""
    """Table of an evaluation, as text; empty in other lines."""


# Cached, because all lines of a file need the same adapter.
@cache
def _reader(kind: type[BaseModel]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def problems_of(kind: type[BaseModel], value: Any) -> Iterator[str]:
    """Yield one line per problem of a JSON value as `kind`: the place, then the expected form."""
    try:
        _reader(kind).validate_python(value)
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_context=False, include_input=False):
            location = ".".join(map(str, problem["loc"]))
            yield f"{location}: {problem['msg']}"[:MAX_MESSAGE]
