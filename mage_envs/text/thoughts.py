"""Thoughts in a model's reply: the markers around them, and the text behind them.

A local model's markers come from a probe of its chat template, and are written as `START` and `END`. A server's reply
is text without a template, so its markers are found in this table.
"""

from __future__ import annotations

import re

START, END = "<think>", "</think>"
"""Markers of a thought in the text of a `Completion`."""
MARKERS: tuple[tuple[str, str], ...] = (
    (START, END),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<reason>", "</reason>"),
    ("<seed:think>", "</seed:think>"),
    ("[think]", "[/think]"),
    ("◁think▷", "◁/think▷"),
    ("<|think|>", "<|/think|>"),
    ("<|start_thinking|>", "<|end_thinking|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>thought", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
    ("to=self<|message|>", "to=user<|message|>"),
)
"""Pairs of markers in lower case. Case does not matter in a reply."""
PROSE: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = (
    (
        re.compile(r"\s*here(?: is|'s) my thought process:", re.IGNORECASE),
        re.compile(r"here(?: is|'s) my response:", re.IGNORECASE),
    ),
    (re.compile(r"analysis(?=[A-Z])"), re.compile("assistantfinal")),
)
"""Markers that are words. They count only if the reply begins with the first one."""
_POSSIBLE = re.compile(r"[<\[◁]|to=self|\Aanalysis|\A\s*here", re.IGNORECASE)
"""Signs without which a reply holds no marker."""


def lower_ascii(text: str) -> str:
    """Return a text of the same length, with ASCII letters in lower case."""
    if text.isascii():
        return text.lower()
    # `str.lower` may change the length of other texts, and reads the Kelvin sign as a "k".
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def after_thoughts(reply: str, tag: str | None = None) -> str:
    """Return the text after the last end of a thought, and before a thought without an end.

    Args:
        tag: Answer tag, which marks no thought.
    """
    # Most replies of small models are bare words.
    if not _POSSIBLE.search(reply):
        return reply
    lowered, answer = lower_ascii(reply), None if tag is None else f"<{lower_ascii(tag)}>"
    markers = [pair for pair in MARKERS if pair[0] != answer and (pair[0] in lowered or pair[1] in lowered)]
    closed = [lowered.rfind(end) + len(end) for _, end in markers if end in lowered]
    for begin, end in PROSE:
        if begin.match(reply):
            ends = [match.end() for match in end.finditer(reply)]
            # A thought in words that never begins its answer reaches to the end of the reply.
            if ends or not closed:
                closed.append(ends[-1] if ends else len(reply))
    start = max(closed, default=0)
    opened = [lowered.find(begin, start) for begin, _ in markers]
    return reply[start : min((position for position in opened if position >= 0), default=len(reply))]
