"""`mage export`: exports the calls of a run as tables or a data set, or its transcripts as Markdown or ATIF 1.8."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mage_envs.benchmarks.evaluation.run.agents import NO_MODEL
from mage_envs.benchmarks.evaluation.suites.environments import make_envs
from mage_envs.benchmarks.evaluation.suites.panels import named_panel
from mage_envs.benchmarks.evaluation.tables.summary_table import format_delimited
from mage_envs.benchmarks.records.hub_folder import FORMAT as HUB_FOLDER
from mage_envs.benchmarks.records.hub_folder import write_folder, write_parquet
from mage_envs.benchmarks.records.lines import chats
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.benchmarks.report.markdown import markdown, of_records, of_training
from mage_envs.benchmarks.report.trained import training_folders
from mage_envs.cli.commands import output_option
from mage_envs.files.atomic import write_atomically
from mage_envs.loading.imports import without_module
from mage_envs.registry import find_env
from mage_envs.wrappers.rollout.trajectory_json import Line

_TASK = ("opponent", "category", "seat0", "failure")
_CALL = (
    *("kind", "episode", "hand", "turn", "seat", "reply", "action", "invalid_reason"),
    *("truncated", "penalty", "reward", "hand_end", "observation"),
)
ENDED_WITH = "ended_with"
"""Column with the last observation of the hand that a call ended."""
COLUMNS = (
    *("index", "seed", "task_id", *_TASK, "call", *_CALL, ENDED_WITH),
    *("prompt", "tokens_in", "tokens_out", "seconds"),
)


def rows(records: Records) -> list[dict[str, Any]]:
    """Return one row per call with the keys `COLUMNS`. `prompt` contains only the new messages of the chat."""
    call_rows = []
    for index, line in sorted(records.lines.items()):
        # One iterator per episode: each hand that ends uses the next text of its episode.
        final_texts = [iter(episode["ended_with"]) for episode in line["episodes"]]
        for number, call in enumerate(line["calls"]):
            over = call["hand_end"] and call["episode"] < len(final_texts)
            tokens_in, tokens_out = call["tokens"] or (None, None)
            row = {
                "index": index,
                "seed": line["task"]["seed"],
                "task_id": line["task"]["task_id"],
                **{name: line[name] for name in _TASK},
                "call": number,
                **{name: call[name] for name in _CALL},
                ENDED_WITH: next(final_texts[call["episode"]], "") if over else "",
                "prompt": "\n\n".join(message["content"] for message in call["messages"]),
                "tokens_in": tokens_in,
                "tokens_out": tokens_out,
                "seconds": line["seconds"][number],
            }
            call_rows.append(row)
    return call_rows


def _csv(records: Records, path: Path) -> None:
    csv_rows = (row | {"seed": str(row["seed"])} for row in rows(records))
    lines = ([_writable(row[name]) for name in COLUMNS] for row in csv_rows)
    write_atomically(path, format_delimited([COLUMNS, *lines]))


def _writable(value: Any) -> Any:
    """Return a text that can be encoded as UTF-8; other values are returned as is."""
    # Replies may contain lone surrogates, which UTF-8 cannot encode.
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _columns(records: Records) -> dict[str, list[Any]]:
    """Return the table of calls by columns."""
    call_rows = rows(records)
    columns = {name: [_writable(row[name]) for row in call_rows] for name in COLUMNS}
    # A Parquet column has one type, but the records have `NaN` and `Infinity` as strings and some numbers as ints.
    for name in ("penalty", "reward", "seconds"):
        columns[name] = [float(value) for value in columns[name]]
    return columns


def _parquet(records: Records, path: Path) -> None:
    write_parquet(_columns(records), path, "parquet")


def _hub_folder(records: Records, path: Path) -> None:
    write_folder(records, _columns(records), path)


def _atif(records: Records, path: Path) -> None:
    about = records.about
    trajectories = [atif_of(line, about) for _, line in sorted(records.lines.items())]
    write_atomically(path, "".join(json.dumps(trajectory) + "\n" for trajectory in trajectories))


def atif_of(line: Line, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return a meta-episode in the Agent Trajectory Interchange Format (ATIF), version 1.8."""
    steps: list[dict[str, Any]] = []

    def add(source: str, message: str, **fields: Any) -> None:
        steps.append({"step_id": len(steps) + 1, "source": source, "message": message, **fields})

    for number, call in enumerate(line["calls"]):
        for message in call["messages"]:
            add("user" if message["role"] == "user" else "agent", message["content"])
        names = ("kind", "episode", "hand", "turn", "action", "invalid_reason", "penalty", "reward", "fresh")
        metrics: dict[str, Any] = {"extra": {"seconds": line["seconds"][number]}}
        if call["tokens"] is not None:
            metrics |= {"prompt_tokens": call["tokens"][0], "completion_tokens": call["tokens"][1]}
        thought = {"reasoning_content": call["reasoning"]} if "reasoning" in call else {}
        add("agent", call["reply"], metrics=metrics, extra={name: call[name] for name in names}, **thought)
    extra = {name: line[name] for name in ("index", "task", "opponent", "category", "episodes", "failure", "digest")}
    return {
        "schema_version": "ATIF-v1.8",
        "session_id": f"{about['fingerprint'][:12]}-{line['index']}",
        "agent": {"name": about["agent"]["name"], "version": about["versions"]["mage-envs"]},
        "steps": steps,
        "extra": extra | {"fingerprint": about["fingerprint"]},
    }


def _sft(records: Records, path: Path) -> None:
    """Write every valid reply with its prompt as a line for TRL's SFTTrainer, which learns the completion only."""
    # A policy writes no reflections; what stands in their place teaches nothing.
    plays_only = records.about["agent"]["name"].partition(":")[0] in NO_MODEL
    lines = []
    for _, line in sorted(records.lines.items()):
        if line["failure"] is not None:
            continue
        for call, chat in zip(line["calls"], chats(line["calls"]), strict=True):
            if call["invalid_reason"] is None and (call["kind"] == "play" or not plays_only):
                prompt = [{"role": message.role, "content": message.content} for message in chat]
                reply = [{"role": "assistant", "content": call["reply"]}]
                lines.append(json.dumps({"prompt": prompt, "completion": reply}) + "\n")
    write_atomically(path, "".join(lines))


FORMATS: Mapping[str, tuple[str, Callable[[Records, Path], None]]] = {
    "csv": ("calls.csv", _csv),
    "parquet": ("calls.parquet", _parquet),
    "atif": ("trajectories.atif.jsonl", _atif),
    "sft": ("sft.jsonl", _sft),
    HUB_FOLDER: ("dataset", _hub_folder),
}
"""Format to its default file name and the function that writes it."""
MARKDOWN = "markdown"
"""Format that is printed, and that trainings have too."""


def command(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="Folder of a run, from mage eval --out; for markdown also from mage train; for openenv a game or an "
            "environment id, for verifiers a panel",
        ),
    ],
    to: Annotated[
        Literal["csv", "parquet", "atif", "sft", "markdown", "hub-folder", "openenv", "verifiers"],
        typer.Option(
            help="Format (required): atif has one trajectory per line, sft one reply with its prompt for TRL's "
            "SFTTrainer, hub-folder is a Hugging Face data set, openenv and verifiers are folders of an environment"
        ),
    ],
    out: Annotated[
        Path | None,
        output_option(
            "FILE",
            "File to write (default: calls.csv, calls.parquet, trajectories.atif.jsonl, sft.jsonl; markdown is "
            "printed); for hub-folder the folder (default: dataset); for openenv and verifiers the folder, whose name "
            "is that of the environment",
        ),
    ] = None,
    index: Annotated[
        int | None, typer.Option(metavar="I", help="For markdown: index of one meta-episode, from 0 (default: all)")
    ] = None,
    episode: Annotated[
        int | None, typer.Option(metavar="K", help="For markdown, with --index: one episode, from 1 (default: all)")
    ] = None,
    prompts: Annotated[bool, typer.Option(help="For markdown: also print the new messages of each prompt")] = False,
) -> None:
    """Write a run's calls as CSV or Parquet, its transcripts as ATIF or Markdown, or all as a Hugging Face data set.

    Or write an environment as the folder that OpenEnv or verifiers builds and publishes.

    Example: mage export runs/t1/kuhn-k10-paper/react --to csv --out calls.csv
    """
    path = out
    if to in ("openenv", "verifiers"):
        path = _write_environment(str(run), to, out)
    elif to == MARKDOWN:
        text = transcripts_text(run, index, episode, prompts)
        if path is None:
            sys.stdout.write(text)
            return
        write_atomically(path, text)
    else:
        if index is not None or episode is not None or prompts:
            raise ValueError(f"--index, --episode and --prompts require --to {MARKDOWN}.")
        name, write = FORMATS[to]
        path = path or Path(name)
        write(_whole(run), path)
    sys.stderr.write(f"wrote {path}\n")


def _write_environment(name: str, to: str, out: Path | None) -> Path:
    """Write the folder of an environment for another framework, and return it."""
    # Imported here, because the export of a run needs neither panels nor other frameworks.
    from mage_envs.wrappers.adapters.environment_folder import write_openenv, write_verifiers

    if to == "verifiers":
        named_panel(name)
        path = out or Path(re.sub(r"\W", "_", f"mage_{name}").lower())
        write_verifiers(name, path)
        return path
    env_id, options = find_env(without_module(name))
    if options:
        raise ValueError(f"--to openenv needs an environment id without options, got {name}, which is {env_id}.")
    [env] = make_envs(env_id)
    facts = env.get_wrapper_attr("env_metadata").spec
    # An episode pays 10 or -10, or 5 times the mean return of its hands.
    most = max(10.0, 5 * abs(facts.min_return), 5 * abs(facts.max_return))
    path = out or Path(re.sub(r"\W", "_", env_id).lower())
    write_openenv(env_id, path, most * env.get_wrapper_attr("num_episodes"))
    return path


def transcripts_text(folder: Path, index: int | None, episode: int | None, prompts: bool) -> str:
    """Return the transcripts of a run as Markdown.

    Args:
        folder: Folder of an evaluation or a training.
        index: Index of one meta-episode, or None for all.
        episode: Number of one episode, or None for all.

    Raises:
        ValueError: If the run is damaged, or has no such meta-episode or episode.
    """
    if episode is not None and index is None:
        raise ValueError("--episode selects an episode of one meta-episode. Name that with --index.")
    transcripts = of_training(folder) if folder in training_folders(folder) else of_records(_whole(folder))
    if index is not None and index not in transcripts:
        raise ValueError(
            f"{folder} has no transcript {index}; it has {len(transcripts)}, up to {max(transcripts, default=0)}."
        )
    selection = transcripts.values() if index is None else [transcripts[index]]
    return "\n".join(markdown(transcript, episode, prompts) for transcript in selection)


def _whole(folder: Path) -> Records:
    """Return the records of a run. Raise ValueError if the run is damaged."""
    records = Records(folder)
    if records.problems:
        raise ValueError(f"{folder} is damaged: {records.problems[0]}. Repair it with mage eval … --resume.")
    return records
