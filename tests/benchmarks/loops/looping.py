"""Loops of a user's, for the tests of records. As a program, it plays the rows of a panel in threads, or dies."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import mage_envs
from mage_envs.benchmarks.records.lines import chats
from mage_envs.benchmarks.records.record_store import Records
from tests.benchmarks.loops.function_agents import reply

Answer = Callable[[Sequence[Any]], Any]


def play(env: Any, info: dict[str, Any], answer: Answer) -> None:
    """Play a meta-episode that has begun."""
    over = False
    while not over:
        _, _, terminated, truncated, info = env.step(answer(info["messages"]))
        over = terminated or truncated


def play_rows(rows: Iterable[Any], answer: Answer = reply) -> int:
    """Play all rows. Returns their number."""
    count = 0
    for env, prompt, info in rows:
        assert prompt == info["messages"][-1]["content"]
        play(env, info, answer)
        count += 1
    return count


class Book:
    """The recorded replies of all runs below a folder, by the chat that they answer."""

    def __init__(self, folder: Path) -> None:
        self.replies: dict[str, str] = {}
        for run in (path.parent for path in sorted(folder.rglob("run.json"))):
            for line in Records(run).lines.values():
                for chat, call in zip(chats(line["calls"]), line["calls"], strict=True):
                    # The agent is a function of the prompts, or this test could not answer them.
                    assert self.replies.setdefault(json.dumps(chat), call["reply"]) == call["reply"]

    def answer(self, messages: Sequence[Any]) -> str:
        return self.replies[json.dumps([[message["role"], message["content"]] for message in messages])]


def root_of(folder: Path) -> str:
    root: str = Records(folder).root()["root"]
    return root


def main(out: str, threads: int, dies_after: int) -> None:
    """Play `kuhn-paper-128`, and kill this process before the end of the meta-episode after so many."""
    rows = mage_envs.rows("kuhn-paper-128", out=out, agent="loop")
    finished = 0

    def play_some() -> None:
        nonlocal finished
        for env, _, info in rows:
            if finished == dies_after:
                os.kill(os.getpid(), signal.SIGKILL)
            play(env, info, reply)
            finished += 1

    workers = [threading.Thread(target=play_some) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
