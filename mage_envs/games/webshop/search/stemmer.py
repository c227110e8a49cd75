"""Porter's stemming algorithm (1980) with the two later rules of Lucene's PorterStemFilter: bli->ble, logi->log.

The source is Porter, "An algorithm for suffix stripping", Program 14(3), 1980. Every character except the vowels aeiou
is a consonant, including digits and full stops. The letter y is a consonant at the start of a word or after a vowel.
"""

from __future__ import annotations

_SECOND = (
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
)
_THIRD = (
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
)
_FOURTH_TEXT = "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize"
_FOURTH = tuple(_FOURTH_TEXT.split())


def stem(word: str) -> str:
    """Return the stem of a lower-case word. A word of one or two letters is its own stem."""
    if len(word) < 3:
        return word
    word = _strip_past(_strip_plural(word))
    if word.endswith("y") and "v" in _form(word[:-1]):
        word = word[:-1] + "i"
    # Lucene skips the suffix rules if the earlier steps left one letter.
    if len(word) > 1:
        word = _replace_suffix(_replace_suffix(word, _SECOND), _THIRD)
        word = _strip_suffix(word)
    return _strip_final_e(word)


def _form(word: str) -> str:
    """Return one letter per character: `c` for a consonant and `v` for a vowel."""
    form = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and form.endswith("c"))
        form += "v" if vowel else "c"
    return form


def _measure(word: str) -> int:
    """Return Porter's m, the number of times that a consonant follows a vowel."""
    return _form(word).count("vc")


def _ends_double(word: str) -> bool:
    return word[-1:] == word[-2:-1] and _form(word).endswith("c")


def _ends_short(word: str) -> bool:
    """Return True for Porter's *o: consonant, vowel, consonant, and the last one is not w, x or y."""
    return _form(word).endswith("cvc") and word[-1] not in "wxy"


def _strip_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    if word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


def _strip_past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        if word.endswith(ending):
            base = word[: -len(ending)]
            return _repair_ending(base) if "v" in _form(base) else word
    return word


def _repair_ending(word: str) -> str:
    """Return a word without -ed or -ing after its repair: the -e is restored, or the double letter made single."""
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if _ends_double(word):
        return word if word[-1] in "lsz" else word[:-1]
    return word + "e" if _measure(word) == 1 and _ends_short(word) else word


def _replace_suffix(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    """Return the word after the first rule with its suffix, if the rest of the word has a measure above 0."""
    # Only the first matching suffix counts, even if its condition fails. Hence "ational" comes before "tional".
    for suffix, replacement in rules:
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            return base + replacement if _measure(base) > 0 else word
    return word


def _strip_suffix(word: str) -> str:
    for suffix in _FOURTH:
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            # Porter's rule for -ion requires s or t before it.
            if suffix == "ion" and not base.endswith(("s", "t")):
                continue
            return base if _measure(base) > 1 else word
    return word


def _strip_final_e(word: str) -> str:
    # Lucene computes the measure for the final -ll before it removes the -e.
    whole_measure = _measure(word)
    if word.endswith("e"):
        base = word[:-1]
        measure = _measure(base)
        if measure > 1 or (measure == 1 and not _ends_short(base)):
            word = base
    return word[:-1] if word.endswith("l") and _ends_double(word) and whole_measure > 1 else word
