"""Transcripts as Markdown, as in the paper's Appendix D."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mage_envs.benchmarks.records.record_store import Records
from mage_envs.benchmarks.report.trained import training_lines
from mage_envs.benchmarks.report.transcripts import number_calls, outcomes, split_reply
from mage_envs.text.visible import visible
from mage_envs.wrappers.rollout.trajectory_json import Line

_WORDS = {"W": "success", "L": "no success", "D": "draw", "T": "out of turns"}


class Transcript(NamedTuple):
    """Meta-episode with a title, and with facts about its run."""

    title: str
    facts: Mapping[str, Any]
    line: Line


def of_training(folder: Path) -> dict[int, Transcript]:
    """Return the transcripts of a training by index. Raise ValueError if a line is not one."""
    of = f"training {_inline(folder.name)}"
    return {
        index: Transcript(f"Transcript {index} of {of}", {"rollout": line["rollout"]}, line)
        for index, line in training_lines(folder).items()
    }


def of_records(records: Records) -> dict[int, Transcript]:
    """Return the transcripts of an evaluation by index."""
    about, options = records.about, records.about["setting"]["options"]
    facts = {
        "agent": about["agent"]["name"],
        "memory": options["memory"],
        "environment": options["env_id"],
        "fingerprint": about["fingerprint"][:12],
    }
    of = _inline(about["setting"]["name"])
    return {
        index: Transcript(f"Meta-episode {index} of {of}", facts, line) for index, line in sorted(records.lines.items())
    }


def markdown(transcript: Transcript, episode: int | None = None, prompts: bool = False) -> str:
    """Return a transcript as Markdown.

    Args:
        transcript: Meta-episode to write.
        episode: Number of one episode, from 1 (default: all).
        prompts: True to write the new messages of each prompt in place of the observations.

    Raises:
        ValueError: If the meta-episode has no such episode.
    """
    title, facts, line = transcript
    # A failed meta-episode has calls of an episode that did not end.
    episode_count = max([len(line["episodes"]), *(call["episode"] + 1 for call in line["calls"])])
    if episode is not None and episode not in range(1, episode_count + 1):
        raise ValueError(f"Meta-episode {line['index']} has episodes 1 to {episode_count}, and no {episode}.")
    episodes = range(episode_count) if episode is None else range(episode - 1, episode)
    all_facts = {
        **facts,
        "opponent": line["opponent"] or None,
        "task": line["played"],
        "outcomes": ", ".join(_WORDS[letter] for letter in outcomes(line)),
        "failure": line["failure"],
    }
    head = "\n".join(f"- {name}: {_inline(str(value))}" for name, value in all_facts.items() if value is not None)
    return "\n\n".join([f"# {title}", head, *_body(line, episodes, prompts)]) + "\n"


def _body(line: Line, episodes: range, prompts: bool) -> Iterator[str]:
    last_episode = -1
    final_texts = [iter(episode["ended_with"]) for episode in line["episodes"]]
    for name, call in number_calls(line):
        if call["episode"] not in episodes:
            continue
        # The calls are in order, so a new number begins a new episode.
        if call["episode"] != last_episode:
            last_episode = call["episode"]
            yield _title(line, last_episode)
        yield f"### {name}, {_inline(call['kind'])}"
        if prompts:
            for message in call["messages"]:
                yield f"Prompt ({message['role']}):\n\n{_fence(message['content'])}"
        elif call["phase"] == "play":
            yield f"Observation:\n\n{_fence(call['observation'])}"
        reply = split_reply(call["reply"])
        reply_parts = (("Thinking", reply.thinking), ("Reply", reply.answer), ("Thinking", reply.trailing))
        for title, text in (("Thinking", call.get("reasoning") or ""), *reply_parts):
            if text.strip():
                yield f"{title}:\n\n{_fence(text)}"
        ends = [f"action {_inline(call['action'])}"] if call["action"] is not None else []
        ends += [call["invalid_reason"]] if call["invalid_reason"] is not None else []
        ends += [f"reward {call['reward']}"] if call["reward"] else []
        ends += [f"penalty {call['penalty']}"] if call["penalty"] else []
        ends += [f"advantage {call['advantage']:+.3f}"] if "advantage" in call else []
        if ends:
            yield f"→ {', '.join(ends)}"
        over = call["hand_end"] and call["episode"] < len(final_texts)
        if over and (text := next(final_texts[call["episode"]], "")):
            yield f"The hand ended with:\n\n{_fence(text)}"


def _title(line: Line, k: int) -> str:
    if k >= len(line["episodes"]):
        return f"## Episode {k + 1}: not finished"
    episode = line["episodes"][k]
    return f"## Episode {k + 1}: {_WORDS[outcomes(line)[k]]}, value {episode['value']}, R {episode['reward']}"


def _inline(text: str) -> str:
    """Return a text as inline code on one line."""
    # One backtick more than the longest run of backticks in the text cannot be closed by it.
    code = visible(text).replace("\n", " ")
    ticks = "`" * (1 + max(map(len, re.findall("`+", code)), default=0))
    pad = " " if code.startswith("`") or code.endswith("`") else ""
    return f"{ticks}{pad}{code}{pad}{ticks}"


def _fence(text: str) -> str:
    """Return a text as a code block whose fence is longer than any run of backticks in the text."""
    code = visible(text).strip("\n")
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    return f"{fence}text\n{code}\n{fence}"
