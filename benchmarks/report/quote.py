"""`mage quote`: prints a transcript as Markdown, as in the paper's Appendix D."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.records.record_store import Records
from benchmarks.report.trained import trained_folders, trained_lines
from benchmarks.report.transcripts import numbered, outcomes, parts
from mage_envs.text.visible import visible
from trainer.runs.trajectory_json import Line

_WORDS = {"W": "success", "L": "no success", "D": "draw", "T": "out of turns"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `mage quote` to its parser."""
    parser.add_argument("run", metavar="RUN", help="folder of a run, from mage eval --out or mage train")
    parser.add_argument(
        "--index", type=int, required=True, metavar="I", help="index of the meta-episode, from 0 (required)"
    )
    parser.add_argument("--episode", type=int, metavar="K", help="number of one episode, from 1 (default: all)")
    parser.add_argument("--prompts", action="store_true", help="also print the new messages of each prompt")
    parser.epilog = "Example: mage quote runs/a --index 0 --episode 2"


def run(arguments: argparse.Namespace) -> None:
    """Print the transcript. Raise ValueError if the run has no such meta-episode or episode."""
    title, facts, line = _found(Path(arguments.run), arguments.index)
    # A failed meta-episode has calls of an episode that did not end.
    played = max([len(line["episodes"]), *(call["episode"] + 1 for call in line["calls"])])
    if arguments.episode is not None and arguments.episode not in range(1, played + 1):
        raise ValueError(f"Meta-episode {arguments.index} has episodes 1 to {played}, and no {arguments.episode}.")
    episodes = range(played) if arguments.episode is None else [arguments.episode - 1]
    told = {
        **facts,
        "opponent": line["opponent"] or None,
        "task": line["played"],
        "outcomes": ", ".join(_WORDS[letter] for letter in outcomes(line)),
        "failure": line["failure"],
    }
    head = "\n".join(f"- {name}: {_inline(str(value))}" for name, value in told.items() if value is not None)
    sys.stdout.write("\n\n".join([f"# {title}", head, *_body(line, episodes, arguments.prompts)]) + "\n")


def _found(folder: Path, index: int) -> tuple[str, Mapping[str, Any], Line]:
    """Return a title, facts about the run, and the line of a transcript of an evaluation or a training."""
    if folder in trained_folders(folder):
        lines = trained_lines(folder)
        if index not in lines:
            raise ValueError(f"{folder} has no transcript {index}; there are {len(lines)}, from 0.")
        return (
            f"Transcript {index} of training {_inline(folder.name)}",
            {"rollout": lines[index]["rollout"]},
            lines[index],
        )
    records = Records(folder)
    if index not in records.lines:
        told = f"0 to {records.planned - 1}, {len(records.lines)} of them played"
        raise ValueError(f"{folder} has no record of meta-episode {index}; there are {told}.")
    about, options = records.about, records.about["setting"]["options"]
    facts = {
        "agent": about["agent"]["name"],
        "memory": options["memory"],
        "environment": options["env_id"],
        "fingerprint": about["fingerprint"][:12],
    }
    return f"Meta-episode {index} of {_inline(about['setting']['name'])}", facts, records.lines[index]


def _body(line: Line, episodes: range | list[int], prompts: bool) -> Iterator[str]:
    last = -1
    ended = [iter(episode.get("ended_with", ())) for episode in line["episodes"]]
    for name, call in numbered(line):
        if call["episode"] not in episodes:
            continue
        # The calls are in order, so a new number begins a new episode.
        if call["episode"] != last:
            last = call["episode"]
            yield _title(line, last)
        yield f"### {name}, {_inline(call['kind'])}"
        if prompts:
            for message in call["messages"]:
                yield f"Prompt ({message['role']}):\n\n{_fenced(message['content'])}"
        elif call["phase"] == "play":
            yield f"Observation:\n\n{_fenced(call['observation'])}"
        reply = parts(call["reply"])
        for title, text in (("Thinking", reply.thinking), ("Reply", reply.answer), ("Thinking", reply.rest)):
            if text.strip():
                yield f"{title}:\n\n{_fenced(text)}"
        ends = [f"action {_inline(call['action'])}"] if call["action"] is not None else []
        ends += [call["invalid_reason"]] if call["invalid_reason"] is not None else []
        ends += [f"reward {call['reward']}"] if call["reward"] else []
        ends += [f"penalty {call['penalty']}"] if call["penalty"] else []
        ends += [f"advantage {call['advantage']:+.3f}"] if "advantage" in call else []
        if ends:
            yield f"→ {', '.join(ends)}"
        over = call["hand_end"] and call["episode"] < len(ended)
        if over and (text := next(ended[call["episode"]], "")):
            yield f"The hand ended with:\n\n{_fenced(text)}"


def _title(line: Line, k: int) -> str:
    if k >= len(line["episodes"]):
        return f"## Episode {k + 1}: not finished"
    episode = line["episodes"][k]
    return f"## Episode {k + 1}: {_WORDS[outcomes(line)[k]]}, value {episode['value']}, R {episode['reward']}"


def _inline(text: str) -> str:
    """Return a text as inline code on one line."""
    # One backtick more than the longest run of backticks in the text cannot be closed by it.
    told = visible(text).replace("\n", " ")
    ticks = "`" * (1 + max(map(len, re.findall("`+", told)), default=0))
    pad = " " if told.startswith("`") or told.endswith("`") else ""
    return f"{ticks}{pad}{told}{pad}{ticks}"


def _fenced(text: str) -> str:
    """Return a text as a code block whose fence is longer than any run of backticks in the text."""
    told = visible(text).strip("\n")
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", told)), default=0))
    return f"{fence}text\n{told}\n{fence}"
