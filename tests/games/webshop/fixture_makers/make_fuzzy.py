"""Golden verdicts of thefuzz 0.19.0 (with Python's difflib) for 5,000 pairs of attributes and options.

    python -m tests.games.webshop.fixture_makers.make_fuzzy tests/games/webshop/search/fixtures

Needs `pip install thefuzz==0.19.0`, without python-Levenshtein, in an environment of its own. The file holds JSON,
compressed by xz: a list of (first, second, score).
"""

from __future__ import annotations

import argparse
import importlib
import json
import lzma
import warnings
from pathlib import Path

import numpy as np

from mage_envs.games.webshop.catalogue_maker import stream
from mage_envs.games.webshop.products import normalise
from tests.games.webshop.fixture_makers import odd_texts

PAIRS = 5000


def values() -> list[str]:
    """Attributes and options of the built-in catalogue, and options as the reward writes synthetic goals'."""
    found: set[str] = set()
    for family in stream("small"):
        for member, shown in zip(family.members, family.listings):
            found |= {attribute.name for attribute in member.attributes}
            for axis, choices in normalise(shown.raw, {"attributes": []}).options.items():
                found |= {*choices, *(str((axis, value)) for value in choices[:2])}
    return sorted(found)


def _changed(rng: np.random.Generator, text: str) -> str:
    """The text with a small change: a letter lost, doubled or swapped, a word lost, moved or added."""
    words = text.split()
    place = int(rng.integers(max(len(text), 1)))
    word = int(rng.integers(max(len(words), 1)))
    return (
        text[:place] + text[place + 1 :],
        text[:place] + text[place : place + 1] * 2 + text[place + 1 :],
        text[:place] + text[place + 1 : place + 2] + text[place : place + 1] + text[place + 2 :],
        " ".join(words[:word] + words[word + 1 :]),
        " ".join(words[word:] + words[:word]),
        f"{text} {odd_texts.strings(1)[int(rng.integers(200))]}",
        text.upper(),
        text + "s",
    )[int(rng.integers(8))]


def pairs() -> list[tuple[str, str]]:
    """A third drawn at random, a third with a word in common, a third changed a little; odd texts among all."""
    rng = np.random.default_rng(5)
    among = values()
    odd = odd_texts.strings()
    made: list[tuple[str, str]] = [
        ("", ""),
        ("a", ""),
        ("!", "!"),
        ("é", "é"),
        ("naïve", "nave"),
        ("a" * 300, "a" * 299),
    ]
    while len(made) < PAIRS:
        first = among[int(rng.integers(len(among)))] if rng.random() < 0.9 else odd[int(rng.integers(len(odd)))]
        kind = len(made) % 3
        if kind == 0:
            second = among[int(rng.integers(len(among)))]
        elif kind == 1:
            related = [text for text in among if set(text.split()) & set(first.split())]
            second = related[int(rng.integers(len(related)))] if related else first
        else:
            second = _changed(rng, _changed(rng, first))
        made.append((first, second))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description="Golden verdicts of thefuzz 0.19.0.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    warnings.filterwarnings("ignore", message="Using slow pure-python")
    score = importlib.import_module("thefuzz.fuzz").token_set_ratio
    found = [(first, second, score(first, second)) for first, second in pairs()]
    stored = json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
    (folder / "fuzzy.json.xz").write_bytes(lzma.compress(stored, preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
