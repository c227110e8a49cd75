"""The instruction of a goal in the words of a buyer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mage_envs.games.webshop.catalogue_maker.draws import Draws, Weighted
from mage_envs.games.webshop.catalogue_maker.tables import FORMS, Attribute, Type, Wording, word_lists

_PHRASES = word_lists("phrases")
Forms = Mapping[str, Weighted[str]]


class Manner(NamedTuple):
    """A set of phrases for instructions."""

    openers: Weighted[str]
    clauses: Forms
    sentences: Forms
    choices: Forms
    lead_probabilities: Mapping[str, float]
    """Probability, by form, that a short wording precedes the noun."""


def _forms(table: Mapping[str, Sequence[tuple[float, str]]]) -> Forms:
    return {name: Weighted(forms) for name, forms in table.items()}


def _manner(lists: dict[str, Any]) -> Manner:
    return Manner(
        openers=Weighted(lists["openers"]),
        clauses=_forms(lists["clauses"]),
        sentences=_forms(lists["sentences"]),
        choices=_forms(lists["choices"]),
        lead_probabilities=lists["before"],
    )


USUAL, HELD_OUT = _manner(_PHRASES["usual"]), _manner(_PHRASES["held_out"])
_OPTION = FORMS.index("m")
"""Place of an option among the clauses: options come before the attributes that could describe them."""
_SYNONYM = 0.5
_SENTENCE = 0.06
_FRUGAL = 0.004
_BUYERS = {"women's ": " for women", "men's ": " for men", "girls' ": " for girls", "boys' ": " for boys"}


def instruction(
    draws: Draws,
    kind: Type,
    attributes: Sequence[Attribute],
    options: Sequence[tuple[str, str]],
    manner: Manner,
    typos: float,
) -> str:
    """Return the instruction of a goal in lower case, without the price clause.

    Args:
        kind: Type of the wanted product.
        options: Wanted options as (axis, value) pairs.
        typos: Probability of one typing error.
    """
    many = kind.number in {"plural", "pair"}
    lead_texts: list[str] = []
    clauses: list[tuple[int, str]] = []
    last_sentence, has_name = "", False
    for attribute in attributes:
        wording = draws.choice(attribute.wordings) if draws.chance(_SYNONYM) else attribute.wordings[0]
        # A second name before the noun would be read as a part of the first one.
        leads = _leads(wording, attribute) and len(lead_texts) < 2 and (wording.form == "a" or not has_name)
        if leads and draws.chance(manner.lead_probabilities[wording.form]):
            lead_texts.insert(0 if wording.form == "a" else len(lead_texts), wording.text)
            has_name |= wording.form != "a"
        elif not last_sentence and len(attributes) > 1 and draws.chance(_SENTENCE):
            last_sentence = ". " + _format_wording(draws, manner.sentences, wording, many)
        else:
            clauses.append((FORMS.index(wording.form), _format_wording(draws, manner.clauses, wording, many)))
    noun = _noun(draws, kind.name)
    pools = {axis.name: axis.pool for axis in kind.axes}
    for axis, value in options:
        form = draws.choose_weighted(manner.choices.get(pools[axis]) or manner.choices[axis])
        pack_phrase = draws.choice(_PHRASES["packs"][value]) if "{w}" in form else ""
        if form.endswith("{n}"):
            noun = form.format(v=value, w=pack_phrase, n=noun)
        else:
            clauses.append((_OPTION, form.format(v=value, w=pack_phrase, **_verbs(many))))
    phrase = _article(draws, kind.number, " ".join([*lead_texts, noun]))
    product = " ".join([phrase, *_join_clauses(draws, _sort_clauses(draws, clauses))])
    text = draws.choose_weighted(manner.openers).format(n=product) + last_sentence
    if draws.chance(_FRUGAL):
        text = f"{text} {_PHRASES['frugal']}"
    # Drawn in any case, so that the number of draws does not depend on `typos`.
    typo_chance, word, letter, how = (draws.uniform() for _ in range(4))
    return _add_typo(text, word, letter, how) if typo_chance < typos else text


_VERBS = ("have", "come", "offer", "taste", "smell")


def _verbs(many: bool) -> dict[str, str]:
    """Return the pronoun and the verbs of a noun's number."""
    if many:
        return {"it": "they", "is": "are", **{verb: verb for verb in _VERBS}}
    return {"it": "it", "is": "is", **{verb: f"{verb}s" for verb in _VERBS}, "have": "has"}


def _format_wording(draws: Draws, forms: Forms, wording: Wording, many: bool) -> str:
    text = wording.plural if many else wording.text
    return draws.choose_weighted(forms[wording.form]).format(a=text, **_verbs(many))


def _sort_clauses(draws: Draws, clauses: list[tuple[int, str]]) -> list[str]:
    """Return the clauses in the order of their forms, so that none of them describes the noun of another one."""
    return [clause for _, clause in sorted(draws.permute(clauses), key=lambda pair: pair[0])]


def _leads(wording: Wording, attribute: Attribute) -> bool:
    """Return True if the wording can precede the noun: short adjectives, and singular names such as "long sleeve"."""
    short = wording.text.count(" ") < 2
    return short and (wording.form == "a" or (wording is attribute.wordings[0] and not wording.text.endswith("s")))


def _noun(draws: Draws, name: str) -> str:
    """Return the product's name, with "women's blouse" sometimes as "blouse for women"."""
    for owner, suffix in _BUYERS.items():
        if name.startswith(owner) and draws.chance(0.15):
            return name[len(owner) :] + suffix
    return name


def _article(draws: Draws, number: str, noun: str) -> str:
    if number == "pair":
        return f"a pair of {noun}" if draws.chance(0.35) else noun
    if number in {"plural", "mass"}:
        return f"some {noun}" if draws.chance(0.2) else noun
    # "us" and "uni" start with a consonant sound, as in "usb cable" and "universal remote".
    vowel = noun.startswith(_VOWELS) and not noun.startswith(("us", "uni"))
    return f"{'an' if vowel else 'a'} {noun}"


_VOWELS = ("a", "e", "i", "o", "u", "8", "11 ", "18 ", "hdmi", "led ", "spf")


def _join_clauses(draws: Draws, clauses: list[str]) -> list[str]:
    """Return the clauses, sometimes with an "and" before the last one."""
    plain = [clause for clause in clauses if not clause.startswith("and ")]
    ending = [clause for clause in clauses if clause.startswith("and ")]
    if len(plain) > 1 and not ending and draws.chance(0.6):
        plain[-1] = f"and {plain[-1]}"
    return plain + ending


def _add_typo(text: str, word: float, letter: float, how: float) -> str:
    """Return the text with one typing error in a longer word: a letter lost, doubled or swapped with the next."""
    words = text.split(" ")
    long_words = [index for index, token in enumerate(words) if len(token) > 4 and token.isalpha()]
    if not long_words:
        return text
    index = long_words[int(word * len(long_words))]
    right = words[index]
    at = 1 + int(letter * (len(right) - 2))
    wrong = (
        right[:at] + right[at + 1 :],
        right[:at] + right[at] + right[at:],
        right[:at] + right[at + 1] + right[at] + right[at + 2 :],
    )
    words[index] = wrong[int(how * len(wrong))]
    return " ".join(words)
