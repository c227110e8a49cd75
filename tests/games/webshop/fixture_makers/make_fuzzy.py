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

from mage_envs.games.webshop.catalogue_maker.make import stream
from mage_envs.games.webshop.products import normalise
from tests.games.webshop.fixture_makers import odd_texts

PAIRS = 5000


def values() -> list[str]:
    """Attributes and options of the built-in catalogue, and options as the reward writes synthetic goals'."""
    names: set[str] = set()
    for family in stream("small"):
        for member, listing in zip(family.members, family.listings):
            names |= {attribute.name for attribute in member.attributes}
            for axis, choices in normalise(listing.raw, {"attributes": []}).options.items():
                names |= {*choices, *(str((axis, value)) for value in choices[:2])}
    return sorted(names)


def _change_text(rng: np.random.Generator, text: str) -> str:
    """The text with a small change: a letter lost, doubled or swapped, a word lost, moved or added."""
    words = text.split()
    position = int(rng.integers(max(len(text), 1)))
    word = int(rng.integers(max(len(words), 1)))
    return (
        text[:position] + text[position + 1 :],
        text[:position] + text[position : position + 1] * 2 + text[position + 1 :],
        text[:position] + text[position + 1 : position + 2] + text[position : position + 1] + text[position + 2 :],
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
    text_pairs: list[tuple[str, str]] = [
        ("", ""),
        ("a", ""),
        ("!", "!"),
        ("é", "é"),
        ("naïve", "nave"),
        ("a" * 300, "a" * 299),
    ]
    while len(text_pairs) < PAIRS:
        first_text = among[int(rng.integers(len(among)))] if rng.random() < 0.9 else odd[int(rng.integers(len(odd)))]
        kind = len(text_pairs) % 3
        if kind == 0:
            second_text = among[int(rng.integers(len(among)))]
        elif kind == 1:
            related = [text for text in among if set(text.split()) & set(first_text.split())]
            second_text = related[int(rng.integers(len(related)))] if related else first_text
        else:
            second_text = _change_text(rng, _change_text(rng, first_text))
        text_pairs.append((first_text, second_text))
    return text_pairs


def main() -> None:
    parser = argparse.ArgumentParser(description="Golden verdicts of thefuzz 0.19.0.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    warnings.filterwarnings("ignore", message="Using slow pure-python")
    score = importlib.import_module("thefuzz.fuzz").token_set_ratio
    scored_pairs = [(first_text, second_text, score(first_text, second_text)) for first_text, second_text in pairs()]
    stored = json.dumps(scored_pairs, ensure_ascii=False, separators=(",", ":")).encode()
    (folder / "fuzzy.json.xz").write_bytes(lzma.compress(stored, preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
