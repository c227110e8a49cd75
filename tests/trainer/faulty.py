"""An opponent that fails in some hands, in every way that an opponent can, and writes down each time before it does."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

RAISING: dict[str, Callable[[], BaseException]] = {
    "begin": lambda: TypeError("begin"),
    "reset": lambda: ValueError("reset"),
    "act": lambda: json.JSONDecodeError("act", "{", 1),
    "result": lambda: KeyError("result"),
    "leave": lambda: SystemExit(1),
}
"""Exceptions to raise, by fault; `leave` in `act`."""
DEADLY = ("sleep", "loop", "segfault", "kill", "memory")
KIND = dict.fromkeys(RAISING, "opponent") | {
    "sleep": "hang",
    "loop": "hang",
    "segfault": "crash",
    "kill": "crash",
    "memory": "memory",
}
"""The kind of failure, by fault."""


class Faulty:
    """Plays at random. Each of `faults` happens in one of `rarity` hands, and is written to `log`.

    The hand's own stream decides which hand fails. A hand never fails twice, so that a second attempt is sound.
    """

    def __init__(self, log: str, faults: tuple[str, ...], rarity: int = 25) -> None:
        self.log, self.faults, self.rarity = log, faults, rarity
        self.fault = ""
        self.begun = 0

    def on_meta_episode_start(self) -> None:
        self.begun += 1
        if "begin" in self.faults and self.begun % self.rarity == 0:
            self.write("begin", str(self.begun))
            raise RAISING["begin"]()

    def reset(self, rng: Any) -> None:
        self.rng = rng
        key = int(rng.integers(2**40))
        position = key % self.rarity
        self.fault = self.faults[position] if position < len(self.faults) else ""
        if self.fault == "begin" or (self.fault and not self.arm(str(key))):
            self.fault = ""
        self.fail("reset")

    def act(self, turn: Any) -> str:
        self.fail("act", "leave", *DEADLY)
        return str(turn.legal_actions[int(self.rng.integers(len(turn.legal_actions)))])

    def on_hand_end(self, turn: Any) -> None:
        self.fail("result")

    def arm(self, key: str) -> bool:
        """Return True if the hand fails for the first time."""
        self.key = key
        return key not in [line.split()[1] for line in lines(self.log)]

    def write(self, fault: str, key: str) -> None:
        file = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, f"{fault} {key}\n".encode())
        os.close(file)

    def fail(self, *faults: str) -> None:
        fault = self.fault
        if fault not in faults:
            return
        self.write(fault, self.key)
        if fault in RAISING:
            raise RAISING[fault]()
        if fault == "sleep":
            time.sleep(600)
        while fault == "loop":
            pass
        if fault == "memory":
            bytearray(64 * 2**30)
        os.kill(os.getpid(), signal.SIGSEGV if fault == "segfault" else signal.SIGKILL)


class Asleep:
    """Writes the id of its process into the file that the environment names, and sleeps."""

    def reset(self, rng: Any) -> None:
        Path(os.environ["ASLEEP"]).write_text(str(os.getpid()))
        time.sleep(600)

    def act(self, turn: Any) -> str:
        return str(turn.legal_actions[0])


def lines(log: str | Path) -> list[str]:
    path = Path(log)
    return path.read_text().splitlines() if path.exists() else []


def count_faults(log: str | Path) -> Counter[str]:
    """How often each kind of failure was made to happen."""
    return Counter(KIND[line.split()[0]] for line in lines(log))
