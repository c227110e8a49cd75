"""Texts that try a search engine hard: ties, doubles, odd punctuation, many scripts, emoji, long and glued words."""

from __future__ import annotations

import numpy as np

_WORDS_TEXT = """
women men's kid’s boys' t-shirt dress shoe shoes running runner hoodie jacket cotton machine wash washable hand lamp
lighting table desk chair cushion vanity mirror brush brushes lipstick conditioner conditional relational snack snacks
gluten-free free organic almond almonds coffee teas usb usb-c hdmi cable cables charger charging wireless bluetooth
bluetooth5.0 4k 8k 60hz 1080p v2.0 12.5 1,000 1,299.99 3.5mm 10x12 10x 0.5oz 16fl.oz 2-pack the a of for with and not
no into such will it color size blue royal red light dark grey gray large x-large xx-large small medium one pack set
piece pieces quick dry easy easily care caring stainless steel rechargeable hypoallergenic hypoallergenics apology
apologies psychology probably feasibly possibly sky skies flying flies agreed agreement feed fed hopping hoping hopped
falling hissing fizzed failing filing happy happiness generously
"""
_WORDS = _WORDS_TEXT.split()
_ODD_TEXT = (
    "naïve café crème Ünal ÜBER İstanbul ΣΊΣΥΦΟΣ straße ĳsberg ﬁne ½ ² ℹ Ⓜ ™ ® ° Ω K Å 漢字 かな カタカナ ｶﾀｶﾅ "
    "ひらがなテスト 한국어 שלום צה״ל ג׳ ภาษาไทย ລາວ မြန်မာ ខ្មែរ हिन्दी العربية ١٢٣ १२३ ΑΒΓ'ς o'neill's "
    "rock'n'roll 'quoted' don't l'eau it’s it＇s its' 's x's X'S _a a_b __a__ ___ snake_case_word a:b a::b a.b "
    "a..b e.g. u.s.a. .net node.js c++ c# f# 1.2.3.4 1,2,,3 1;2 1:2 1'2 a,b a;b 5% $5 #1 *2 #️⃣ 1️⃣ *⃣ 😀 👍🏽 "
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 🇩 ❤️ ☺︎ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 👁️‍🗨️ ‍👩 🅰️b ℹ️a soft\u00adhyphen zero\u200bwidth zero\u200dwidth "
    "non\u00a0breaking wide　space e\u0301te a\u0300b tab\tnew\nline 𝒜lpha 𝟏𝟐 𠀀𠀁 \ufeffbom \u2028 \u202fnarrow "
    "a\u202fb fullwidth：ａｂｃ＿１２３ middle·dot ·· ʼn a’’b — – … “q” «q» 【tip】"
)
_ODD = _ODD_TEXT.split(" ")
_LONG = (
    "a" * 254,
    "b" * 255,
    "c" * 256,
    "d" * 600,
    "_" * 300 + "e",
    "1." * 200 + "5",
    "ü" * 300,
    "x.y" * 120,
    "漢" * 40,
)
_BETWEEN = (" ",) * 12 + (", ", "/", " - ", "; ", ": ", "'", ".", "(", ") ", "_", "\u200d", "\n")


def _draw(rng: np.random.Generator, among: tuple[str, ...] | list[str]) -> str:
    return among[int(rng.integers(len(among)))]


def _text(rng: np.random.Generator, count: int, oddity: float) -> str:
    parts: list[str] = []
    for _ in range(count):
        odd = rng.random() < oddity
        word = _draw(rng, _ODD) if odd else _WORDS[min(int(rng.geometric(0.03)), len(_WORDS)) - 1]
        parts += [word, _draw(rng, _BETWEEN) if rng.random() < 4 * oddity else " "]
    return "".join(parts)


def strings(count: int = 600) -> list[str]:
    """Short odd texts, every word of the lists among them."""
    rng = np.random.default_rng(1)
    texts = [*_WORDS, *_ODD, *_LONG, "", " ", "\n"]
    while len(texts) < count:
        texts.append(_text(rng, int(rng.integers(1, 9)), 0.7))
    return texts


def documents(count: int = 1000) -> list[tuple[str, str]]:
    """Texts with ids out of order: a fifth are doubles, some have no term at all, a few are long."""
    rng = np.random.default_rng(2)
    order = rng.permutation(count)
    entries: list[tuple[str, str]] = []
    for number in order:
        identifier = f"B{int(number) * 7919 % 10_007:05d}" if number % 10 else f"{int(number)}"
        chance = rng.random()
        if chance < 0.2 and entries:
            text = entries[int(rng.integers(len(entries)))][1]
        elif chance < 0.21:
            text = _draw(rng, ["...", "the of and", "— ! —", "___"])
        elif chance < 0.24:
            text = " ".join([_draw(rng, _WORDS)] * int(rng.integers(2, 400)) + [_draw(rng, _LONG)])
        else:
            text = _text(rng, int(rng.geometric(0.04)) + 2, 0.15)
        entries.append((identifier, text.lower()))
    return entries


def queries(count: int = 300) -> list[str]:
    """Queries for `documents`: short and long, with repeats and stop words."""
    rng = np.random.default_rng(3)
    texts = ["", "the", "zebra", "shoe shoes SHOES", "a" * 254 + " " + "b" * 255]
    while len(texts) < count:
        texts.append(_text(rng, int(rng.integers(1, 6 if len(texts) % 3 else 30)), 0.15).lower())
    return texts
