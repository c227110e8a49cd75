"""Conversion of text to search terms, as in the English analyser of Lucene 8.11: words, lower case, stems.

The words are those of Lucene's StandardTokenizer, which uses the word boundaries of Unicode 9 (UAX#29). Underscores
join. A colon, full stop or apostrophe joins letters. A comma, semicolon, full stop or apostrophe joins digits. Every
Chinese character, hiragana and emoji is a separate word. A word has at most 255 UTF-16 units.

ASCII text is matched directly. Any other text is translated to one letter per character, its class in
`word_break.txt`, and the words are found in those letters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files

from mage_envs.games.webshop.search.stemmer import stem

MAX_WORD = 255
"""Maximum number of UTF-16 units in a word (default of StandardTokenizer)."""

_STOP_WORDS = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to
was will with
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Lucene's stop words for English."""

_APOSTROPHES = ("'", "\u2019", "\uff07")

# The quantifiers are possessive (`++`) or in atomic groups, so that no text makes the expressions backtrack. Groups are
# atomic, because Python before 3.11.5 finds wrong matches of possessive groups that contain alternatives (gh-106052).


def _any(group: str) -> str:
    return f"(?>(?:{group})*)"


def _some(group: str) -> str:
    return f"(?>(?:{group})+)"


_ASCII_RUN = _some("[0-9]++(?:[,;.'](?=[0-9]))?|[A-Za-z]++(?:[:.'](?=[A-Za-z]))?")
_ASCII_WORD = re.compile(f"_{{0,{MAX_WORD}}}+{_ASCII_RUN}{_any(f'_++{_ASCII_RUN}')}_*+")

# The letters in these expressions are the classes of characters in `word_break.txt`.
_ATTACHED = "[xvkwjtzc]*+"
_JOIN = f"U{_ATTACHED}"
_DIGIT = f"N{_ATTACHED}(?:[,.q]{_ATTACHED}(?=N))?"
# A Hebrew letter at this place counts as any other letter.
_LETTER_NEXT = f"{_ATTACHED}(?:H{_ATTACHED}|(?=[LE]))"
_BETWEEN = _any(f"[:.q]{_LETTER_NEXT}")
_LETTER = f"[LE]{_ATTACHED}{_BETWEEN}"
_HEBREW = f"H{_ATTACHED}(?:q{_ATTACHED}|d{_ATTACHED}H{_ATTACHED}|[:.]{_LETTER_NEXT}{_BETWEEN})?"
_RUN = f"(?:{_some(f'{_DIGIT}|{_LETTER}|{_HEBREW}')}|{_some(f'K{_ATTACHED}')})"
_WORD = f"(?>(?:{_JOIN}){{0,{MAX_WORD}}}){_RUN}{_any(_some(_JOIN) + _RUN)}{_any(_JOIN)}"

_TAIL = "[xktzcj]*+"
_JOINED = "wj(?:j*+(?=[BPE])|(?=m))"
_TAGGED = "w(?:t++z)?"
_FIRST_PICTURE = f"j{{0,{MAX_WORD}}}+(?:B{_TAIL}(?:m{_TAIL}|{_JOINED}|{_TAGGED})?|[PE]{_TAIL}(?:{_JOINED}|{_TAGGED})?)"
_NEXT_PICTURE = f"(?<=j)(?:B{_TAIL}(?:m{_TAIL}|{_JOINED}|w)?|[PE]{_TAIL}(?:{_JOINED}|w)?|m{_TAIL})"
_PICTURES = f"(?:{_FIRST_PICTURE}|m{_TAIL}){_any(_NEXT_PICTURE)}"
_FLAG = f"R{_ATTACHED}R{_ATTACHED}"
_KEYCAP = f"b[xjtzc]*+(?:k{_TAIL}(?:wk{_TAIL})?|wk{_TAIL})"
_UNSPACED = f"[Cc]{_any(f'C|{_ATTACHED[:-2]}')}"
_SINGLE = f"S{_ATTACHED}"

_TOKEN = re.compile("|".join((_WORD, _SINGLE, _UNSPACED, _PICTURES, _FLAG, _KEYCAP)))
_EMOJI = re.compile(_PICTURES)
_LETTER_THAT_IS_PICTURE = "E"


class _Kinds(dict[int, str]):
    """The class letter of each code point, for `str.translate`.

    Entries are added when a code point first appears.
    """

    def __init__(self) -> None:
        super().__init__()
        lines = files(__package__).joinpath("word_break.txt").read_text(encoding="ascii").splitlines()
        ranges = []
        for line in lines:
            if line.startswith("#"):
                continue
            letter, *spans = line.split()
            for span in spans:
                first_code, _, last_code = span.partition("-")
                ranges.append((int(first_code, 16), int(last_code or first_code, 16), letter))
        ranges.sort()
        self._firsts = [first_code for first_code, _, _ in ranges]
        self._ranges = ranges

    def __missing__(self, code: int) -> str:
        index = bisect_right(self._firsts, code) - 1
        letter = "o"
        if index >= 0 and code <= self._ranges[index][1]:
            letter = self._ranges[index][2]
        self[code] = letter
        return letter


@lru_cache(maxsize=1)
def _kinds() -> _Kinds:
    return _Kinds()


def words(text: str) -> list[str]:
    """Return the words of a text in order, unchanged."""
    # Most texts are ASCII, and one expression without translation is faster. Overlong words need the general way.
    if text.isascii():
        ascii_words: list[str] = _ASCII_WORD.findall(text)
        if max(map(len, ascii_words), default=0) <= MAX_WORD:
            return ascii_words
    return list(_read(text, text.translate(_kinds())))


def _read(text: str, kinds: str) -> Iterator[str]:
    start = 0
    while match := _TOKEN.search(kinds, start):
        start, end = match.span()
        # Half the limit is safe, because a character has at most two units.
        if end - start <= MAX_WORD // 2 and kinds[start] != _LETTER_THAT_IS_PICTURE:
            yield text[start:end]
            start = end
            continue
        # Lucene sees 255 units at a time. If a letter is also an emoji, the longer of two matches is the word.
        while start < end:
            window = _window(text, start)
            readings = (_TOKEN.match(kinds, start, window), _EMOJI.match(kinds, start, window))
            stop = max((reading.end() for reading in readings if reading), default=start)
            if stop > start:
                yield text[start:stop]
            start = max(stop, start + 1)


def _window(text: str, start: int) -> int:
    """Return the end of the whole characters within 255 UTF-16 units of `start`."""
    units = 0
    for index in range(start, min(start + MAX_WORD, len(text))):
        units += 2 if text[index] > "\uffff" else 1
        if units > MAX_WORD:
            return index
    return min(start + MAX_WORD, len(text))


def term(word: str) -> str | None:
    """Return the term of a word for index and query, or None if it is a stop word."""
    # The order is Lucene's: possessive, lower case, stop words, stem.
    if word[-1] in "sS" and word[-2:-1] in _APOSTROPHES:
        word = word[:-2]
    word = word.lower() if word.isascii() else "".join(map(_lower, word))
    if word in STOP_WORDS:
        return None
    return stem(word) if word.isascii() or max(word) <= "\uffff" else _stem_in_units(word)


def _lower(letter: str) -> str:
    """Return Java's lower case of one character, which is always one character."""
    return letter.lower()[0]


def _stem_in_units(word: str) -> str:
    """Return the stem, counting a character outside the basic plane as two letters, as in Java."""
    units = "".join(
        letter if letter <= "\uffff" else chr(0xD7C0 + (ord(letter) >> 10)) + chr(0xDC00 + (ord(letter) & 0x3FF))
        for letter in word
    )
    return stem(units).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
