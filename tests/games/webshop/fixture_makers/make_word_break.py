"""Writes mage_envs/games/webshop/search/word_break.txt: the class that Lucene's StandardTokenizer sees in a character.

python -m tests.games.webshop.fixture_makers.make_word_break

It needs the packages that `lucene.py` names. The classes are Unicode 9's Word_Break property, with scripts that are
written without spaces and the properties of emoji beside it. The tokenizer's table shows which characters it takes as
equal. Each class is named after one of its characters.
"""

from __future__ import annotations

import importlib
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.games.webshop.fixture_makers.lucene import java_class

TARGET = Path(__file__).parents[4] / "mage_envs" / "games" / "webshop" / "search" / "word_break.txt"
CLASSES = {
    "L": ("ALetter, with Hangul", ("A", "\uac00")),
    "E": ("ALetter that is an emoji", ("\u2139",)),
    "H": ("Hebrew_Letter", ("\u05d0",)),
    "N": ("Numeric", ("0", "\u0660")),
    "K": ("Katakana", ("\u30a0",)),
    "S": ("Han and Hiragana: words of one character", ("\u4e00", "\u3041")),
    "C": ("letters of scripts without spaces (Line_Break SA)", ("\u0e01",)),
    "c": ("Extend, of scripts without spaces", ("\u0e31",)),
    "U": ("ExtendNumLet", ("_",)),
    ":": ("MidLetter", (":",)),
    ",": ("MidNum", (",",)),
    ".": ("MidNumLet", (".",)),
    "q": ("Single_Quote", ("'",)),
    "d": ("Double_Quote", ('"',)),
    "x": ("Extend and Format", ("\u0300",)),
    "j": ("ZWJ", ("\u200d",)),
    "v": ("variation selector 15", ("\ufe0e",)),
    "w": ("variation selector 16", ("\ufe0f",)),
    "k": ("enclosing keycap", ("\u20e3",)),
    "b": ("base of a keycap, but for the digits", ("#",)),
    "t": ("tag characters", ("\U000e0020",)),
    "z": ("end of tag", ("\U000e007f",)),
    "R": ("Regional_Indicator", ("\U0001f1e6",)),
    "B": ("Emoji_Modifier_Base", ("\u261d",)),
    "P": ("other Emoji and Extended_Pictographic", ("\u00a9",)),
    "m": ("Emoji_Modifier", ("\U0001f3fb",)),
}


def tokenizer_table() -> list[int]:
    """The tokenizer's number for the class of each code point."""
    java_class()
    jnius = importlib.import_module("jnius")
    body = {
        "__javaclass__": "org/apache/lucene/analysis/standard/StandardTokenizerImpl",
        "ZZ_CMAP": jnius.JavaStaticField("[C"),
    }
    tokenizer: Any = jnius.MetaJavaClass("Tokenizer", (jnius.JavaClass,), body)
    return [ord(number) for number in tokenizer.ZZ_CMAP]


def main() -> None:
    table = tokenizer_table()
    letters = {table[ord(example)]: letter for letter, (_, examples) in CLASSES.items() for example in examples}
    missing = set(table) - set(letters) - {table[0]}
    if missing:
        raise ValueError(f"The tokenizer has classes without a letter: {sorted(missing)}.")
    spans: dict[str, list[str]] = {letter: [] for letter in CLASSES}
    for letter, group in groupby(range(len(table)), key=lambda code: letters.get(table[code])):
        codes = list(group)
        if letter is not None:
            spans[letter].append(f"{codes[0]:X}" if len(codes) == 1 else f"{codes[0]:X}-{codes[-1]:X}")
    head = [
        "# Classes of characters for finding words: a letter, then the code points (hexadecimal) of its class.",
        "# Facts of Unicode 9.0 (Word_Break, Line_Break, Script) and of emoji 11, as Lucene 8.11 knows them.",
        "# Written by tests/games/webshop/fixture_makers/make_word_break.py.",
    ]
    for letter, (name, _) in CLASSES.items():
        head += [f"# {letter}: {name}", f"{letter} {' '.join(spans[letter])}"]
    TARGET.write_text("\n".join(head) + "\n", "ascii")


if __name__ == "__main__":
    main()
