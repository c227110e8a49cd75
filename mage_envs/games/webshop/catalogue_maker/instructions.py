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
    before: Mapping[str, float]
    """Probability, by form, that a short wording precedes the noun."""


def _forms(table: Mapping[str, Sequence[tuple[float, str]]]) -> Forms:
    return {name: Weighted(forms) for name, forms in table.items()}


def _manner(lists: dict[str, Any]) -> Manner:
    return Manner(
        openers=Weighted(lists["openers"]),
        clauses=_forms(lists["clauses"]),
        sentences=_forms(lists["sentences"]),
        choices=_forms(lists["choices"]),
        before=lists["before"],
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
    wanted: Sequence[Attribute],
    options: Sequence[tuple[str, str]],
    manner: Manner,
    typos: float,
) -> str:
    """Return the instruction of a goal in lower case, without the price clause.

    Args:
        draws: Source of randomness.
        kind: Type of the wanted product.
        wanted: Wanted attributes.
        options: Wanted options as (axis, value) pairs.
        manner: Phrases of the instruction.
        typos: Probability of one typing error.
    """
    many = kind.number in {"plural", "pair"}
    before: list[str] = []
    clauses: list[tuple[int, str]] = []
    last, named = "", False
    for attribute in wanted:
        wording = draws.choice(attribute.wordings) if draws.chance(_SYNONYM) else attribute.wordings[0]
        # A second name before the noun would be read as a part of the first one.
        leads = _leads(wording, attribute) and len(before) < 2 and (wording.form == "a" or not named)
        if leads and draws.chance(manner.before[wording.form]):
            before.insert(0 if wording.form == "a" else len(before), wording.text)
            named |= wording.form != "a"
        elif not last and len(wanted) > 1 and draws.chance(_SENTENCE):
            last = ". " + _said(draws, manner.sentences, wording, many)
        else:
            clauses.append((FORMS.index(wording.form), _said(draws, manner.clauses, wording, many)))
    noun = _noun(draws, kind.name)
    pools = {axis.name: axis.pool for axis in kind.axes}
    for axis, value in options:
        form = draws.weighted(manner.choices.get(pools[axis]) or manner.choices[axis])
        held = draws.choice(_PHRASES["packs"][value]) if "{w}" in form else ""
        if form.endswith("{n}"):
            noun = form.format(v=value, w=held, n=noun)
        else:
            clauses.append((_OPTION, form.format(v=value, w=held, **_verbs(many))))
    phrase = _article(draws, kind.number, " ".join([*before, noun]))
    product = " ".join([phrase, *_joined(draws, _in_order(draws, clauses))])
    text = draws.weighted(manner.openers).format(n=product) + last
    if draws.chance(_FRUGAL):
        text = f"{text} {_PHRASES['frugal']}"
    # Drawn in any case, so that the number of draws does not depend on `typos`.
    slip, word, letter, how = (draws.uniform() for _ in range(4))
    return _slipped(text, word, letter, how) if slip < typos else text


_VERBS = ("have", "come", "offer", "taste", "smell")


def _verbs(many: bool) -> dict[str, str]:
    """Return the pronoun and the verbs of a noun's number."""
    if many:
        return {"it": "they", "is": "are", **{verb: verb for verb in _VERBS}}
    return {"it": "it", "is": "is", **{verb: f"{verb}s" for verb in _VERBS}, "have": "has"}


def _said(draws: Draws, forms: Forms, wording: Wording, many: bool) -> str:
    text = wording.plural if many else wording.text
    return draws.weighted(forms[wording.form]).format(a=text, **_verbs(many))


def _in_order(draws: Draws, clauses: list[tuple[int, str]]) -> list[str]:
    """Return the clauses in the order of their forms, so that none of them describes the noun of another one."""
    return [clause for _, clause in sorted(draws.shuffled(clauses), key=lambda one: one[0])]


def _leads(wording: Wording, attribute: Attribute) -> bool:
    """Return True if the wording can precede the noun: short adjectives, and singular names such as "long sleeve"."""
    short = wording.text.count(" ") < 2
    return short and (wording.form == "a" or (wording is attribute.wordings[0] and not wording.text.endswith("s")))


def _noun(draws: Draws, name: str) -> str:
    """Return the product's name, with "women's blouse" sometimes as "blouse for women"."""
    for owner, after in _BUYERS.items():
        if name.startswith(owner) and draws.chance(0.15):
            return name[len(owner) :] + after
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


def _joined(draws: Draws, clauses: list[str]) -> list[str]:
    """Return the clauses, sometimes with an "and" before the last one."""
    plain = [clause for clause in clauses if not clause.startswith("and ")]
    ending = [clause for clause in clauses if clause.startswith("and ")]
    if len(plain) > 1 and not ending and draws.chance(0.6):
        plain[-1] = f"and {plain[-1]}"
    return plain + ending


def _slipped(text: str, word: float, letter: float, how: float) -> str:
    """Return the text with one typing error in a longer word: a letter lost, doubled or swapped with the next."""
    words = text.split(" ")
    longer = [place for place, one in enumerate(words) if len(one) > 4 and one.isalpha()]
    if not longer:
        return text
    place = longer[int(word * len(longer))]
    right = words[place]
    at = 1 + int(letter * (len(right) - 2))
    wrong = (
        right[:at] + right[at + 1 :],
        right[:at] + right[at] + right[at:],
        right[:at] + right[at + 1] + right[at] + right[at + 2 :],
    )
    words[place] = wrong[int(how * len(wrong))]
    return " ".join(words)
