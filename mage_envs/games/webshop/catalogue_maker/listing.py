"""The texts of a product in the words of its seller: title, bullets and description, as in the official files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mage_envs.games.webshop.catalogue_maker.draws import Draws, Weighted
from mage_envs.games.webshop.catalogue_maker.family import Member
from mage_envs.games.webshop.catalogue_maker.tables import Attribute, word_lists

_PHRASES = word_lists("phrases")
TITLE, FIRST, LATER, DESCRIPTION = "title", "first bullet", "later bullet", "description"
_PLACES = Weighted([(16, TITLE), (10, FIRST), (60, LATER), (14, DESCRIPTION)])
_SHORTEST, _LONGEST = 8, 25
_LONGEST_DESCRIPTION = 120
_JOINTS = Weighted([(45, " "), (35, ", "), (8, " - "), (8, " | "), (4, " , ")])
_ODD = ("!", "™", " ★", " (Pack)", " ✓", ".", " – NEW", "®")


class Listing(NamedTuple):
    """A product's entry, and the place of each attribute in it."""

    raw: dict[str, Any]
    """Entry in the schema of `items_shuffle.json`."""
    places: dict[str, str]
    """Place of each attribute: `title`, `first bullet`, `later bullet` or `description`."""


def listing(draws: Draws, member: Member, asin: str) -> Listing:
    """Return the listing of a product. Exactly one place mentions each attribute."""
    described = not draws.chance(0.2)
    spots: dict[str, list[Attribute]] = {TITLE: [], FIRST: [], LATER: [], DESCRIPTION: []}
    for attribute in member.attributes:
        spot = draws.choose_weighted(_PLACES)
        # A later bullet replaces a place that does not exist, or a title that is full.
        if (spot == DESCRIPTION and not described) or (spot == TITLE and len(spots[TITLE]) == 5):
            spot = LATER
        spots[spot].append(attribute)
    words = _words(member)
    raw = {
        "asin": asin,
        "name": _title(draws, member, draws.permute(spots[TITLE])),
        "category": member.kind.department.name,
        "query": member.kind.name,
        "product_category": member.kind.path,
        "full_description": _description(draws, member, words, spots[DESCRIPTION]) if described else "",
        "small_description": _bullets(draws, member, words, spots[FIRST], draws.permute(spots[LATER])),
        "pricing": _pricing(member),
        "customization_options": {
            axis.name: [{"value": value.text, "image": None} for value in values] for axis, values in member.options
        },
        "images": [""],
    }
    return Listing(raw, {attribute.name: spot for spot, attributes in spots.items() for attribute in attributes})


def _pricing(member: Member) -> str:
    if not member.priced:
        return ""
    return f"${member.low:.2f}" if member.low == member.high else f"${member.low:.2f} - ${member.high:.2f}"


def _words(member: Member) -> dict[str, str]:
    """Return the words that all sentence forms use."""
    kind = member.kind
    many = kind.number in {"plural", "pair"}
    return {
        "n": kind.name,
        "N": kind.title,
        "brand": member.brand,
        "This": "These" if many else "This",
        "is": "are" if many else "is",
        "come": "come" if many else "comes",
    }


def _title(draws: Draws, member: Member, attributes: list[Attribute]) -> str:
    adjectives = [attribute.title_text for attribute in attributes if attribute.wordings[0].form == "a"][:2]
    trailing_texts = [attribute.title_text for attribute in attributes if attribute.title_text not in adjectives]
    head = [member.brand]
    if draws.chance(0.25):
        head.append(draws.choice(_PHRASES["models"]))
    title = " ".join([*head, *adjectives, member.kind.title])
    if draws.chance(0.06):
        title = f"{draws.choice(_PHRASES['stuffing'])} {title}"
    joint = draws.choose_weighted(_JOINTS)
    if trailing_texts and draws.chance(0.3):
        title = f"{title}{'' if trailing_texts[0].startswith('for ') else ' with'} {trailing_texts.pop(0)}"
    title = joint.join([title, *trailing_texts])
    target_length = draws.between(_SHORTEST, 19)
    for filler in draws.sample(member.kind.department.fillers, 12):
        length = title.count(" ") + 1
        if length >= target_length or length + filler.count(" ") + 2 > _LONGEST:
            break
        title += (" " if filler.startswith("for ") else joint) + filler
    return title + draws.choice(_ODD) if draws.chance(0.06) else title


def _sentence(draws: Draws, forms: Mapping[str, Sequence[str]], attribute: Attribute, words: dict[str, str]) -> str:
    """Return a sentence about the attribute, in its canonical wording four times out of five."""
    wording = attribute.wordings[0]
    # A clause with "that" or in the first person does not fit the sentences of a seller.
    if len(attribute.wordings) > 1 and draws.chance(0.2):
        synonym = draws.choice(attribute.wordings[1:])
        wording = synonym if synonym.form != "t" and " i " not in f" {synonym.text} " else wording
    capital = wording.text[:1].upper() + wording.text[1:]
    return draws.choice(forms[wording.form]).format(a=wording.text, A=capital, **words)


def _bullets(
    draws: Draws,
    member: Member,
    words: dict[str, str],
    first_attributes: list[Attribute],
    later_attributes: list[Attribute],
) -> list[str]:
    """Return two to six bullets. The search engine reads only the first one."""
    count = max(2, min(6, draws.between(2, 5) + (len(later_attributes) > 1)))
    groups: list[list[Attribute]] = [[] for _ in range(count)]
    groups[0] = first_attributes
    for number, attribute in enumerate(later_attributes):
        groups[1 + number % (count - 1)].append(attribute)
    benefits = draws.sample(member.kind.department.benefits, count + 1)
    bullets = []
    for number, group in enumerate(groups):
        benefit = benefits[number]
        bullet_words = {**words, "b": benefit, "b2": benefits[-1], "B": benefit[:1].upper() + benefit[1:]}
        if not group:
            bullets.append(draws.choice(_PHRASES["plain_bullets"]).format(**bullet_words))
            continue
        bullet = _sentence(draws, _PHRASES["bullets"], group[0], bullet_words)
        further_names = [attribute.name for attribute in group[1:]]
        bullets.append(f"{bullet}; also {' and '.join(further_names)}" if further_names else bullet)
    # Real listings have upper-case headings and repeated bullets, too.
    shout = draws.uniform()
    if shout < 0.12:
        bullets = [
            bullet.partition(":")[0].upper() + bullet[bullet.find(":") :] if ":" in bullet else bullet
            for bullet in bullets
        ]
    elif shout < 0.16:
        bullets.append(bullets[-1])
    return bullets[:6]


def _description(draws: Draws, member: Member, words: dict[str, str], attributes: list[Attribute]) -> str:
    sentences = [_sentence(draws, _PHRASES["description_attributes"], attribute, words) for attribute in attributes]
    start = draws.choice(_PHRASES["description_starts"]).format(**words)
    length = sum(sentence.count(" ") + 1 for sentence in sentences) + start.count(" ") + 1
    for story in draws.sample(member.kind.department.stories, draws.between(1, 5)):
        length += story.count(" ") + 1
        if length > _LONGEST_DESCRIPTION:
            break
        sentences.append(story)
    return " ".join([start, *draws.permute(sentences)])
