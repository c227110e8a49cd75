"""A hand of Kuhn Poker as a picture, from the view of one seat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mage_envs.drawing.picture import Block, Colour, Disc, Picture, Shape, Stroke, Text

WIDTH, HEIGHT = 480, 448
CARD_WIDTH, CARD_HEIGHT = 88, 124
MIDDLE = WIDTH / 2
TOP, BOTTOM = 34, HEIGHT - 68 - CARD_HEIGHT
"""Upper edges of the opponent's card and of the own card, in pixels."""
POT = (TOP + CARD_HEIGHT + BOTTOM) / 2
"""Vertical position of the pot's middle, in pixels."""
RAIL: Colour = (84, 57, 40)
FELT: Colour = (36, 110, 84)
FELT_LIGHT: Colour = (58, 136, 106)
SHADE: Colour = (10, 30, 24)
CARD: Colour = (252, 250, 244)
BACK: Colour = (148, 47, 58)
BACK_LIGHT: Colour = (196, 96, 100)
GOLD: Colour = (245, 196, 84)
CREAM: Colour = (240, 236, 220)
SAND: Colour = (178, 205, 180)
INK: Colour = (40, 44, 58)
CHIP: Colour = (206, 66, 62)
RANKS: dict[str, Colour] = {"J": (45, 92, 160), "Q": (133, 66, 146), "K": (192, 56, 52)}


def hand(
    own_card: str,
    other_card: str | None,
    moves: Sequence[tuple[bool, str]],
    winner: bool | None,
    caption: str,
    *,
    acts_first: bool,
) -> Picture:
    """Draw a hand.

    Args:
        own_card: Rank of the own card, `J`, `Q` or `K`.
        other_card: Rank of the opponent's card, or None if it is face down.
        moves: Moves so far as (True for an own move, word).
        winner: True if this seat won, False if it lost, None before the end.
        caption: Text below the table.
        acts_first: True if this seat acts first.

    Returns:
        The picture.
    """
    # Later moves replace earlier ones, so this holds each player's last word.
    last_words = dict(moves)
    # Each player antes one chip. A bet and a call add one each.
    pot = 2 + sum(word in ("bet", "call") for _, word in moves)
    shapes: list[Shape] = [
        Block(6, 6, WIDTH - 12, HEIGHT - 12, colour=FELT, corner=34),
        Disc(MIDDLE, POT, 90, FELT_LIGHT, opacity=0.6, blur=150),
        Block(MIDDLE - 112, POT - 26, 224, 52, colour=SHADE, corner=26, opacity=0.18),
    ]
    for mine, top, rank in ((False, TOP, other_card), (True, BOTTOM, own_card)):
        folded = last_words.get(mine) == "fold"
        shapes += _card(top, rank, shines=winner is mine)
        if folded:
            shapes.append(
                Block(MIDDLE - CARD_WIDTH / 2, top, CARD_WIDTH, CARD_HEIGHT, colour=FELT, corner=10, opacity=0.55)
            )
        shapes.append(Text("You" if mine else "Opponent", 100, top + CARD_HEIGHT / 2 - 9, 13, colour=CREAM))
        order = "first to act" if acts_first is mine else "second to act"
        shapes.append(Text(order, 100, top + CARD_HEIGHT / 2 + 13, 9.5, colour=SAND))
        if mine in last_words:
            shapes += _label(last_words[mine], top + CARD_HEIGHT / 2)
    for chip in range(pot):
        shapes += _chip(MIDDLE - 12 + 32 * chip, POT)
    shapes.append(Text(f"Pot {pot}", MIDDLE - 66, POT, 12, colour=CREAM))
    shapes.append(Text(caption, MIDDLE, HEIGHT - 34, 14, colour=GOLD if winner else CREAM))
    return Picture(WIDTH, HEIGHT, RAIL, tuple(shapes))


def _card(top: float, rank: str | None, shines: bool) -> Iterator[Shape]:
    left = MIDDLE - CARD_WIDTH / 2
    yield Block(left + 1, top + 5, CARD_WIDTH, CARD_HEIGHT, colour=SHADE, corner=10, opacity=0.45, blur=10)
    if shines:
        yield Block(left - 5, top - 5, CARD_WIDTH + 10, CARD_HEIGHT + 10, colour=GOLD, corner=14)
    yield Block(left, top, CARD_WIDTH, CARD_HEIGHT, colour=CARD, corner=10)
    if rank is None:
        yield from _back(left + 6, top + 6, CARD_WIDTH - 12, CARD_HEIGHT - 12)
        return
    yield Text(rank, MIDDLE, top + CARD_HEIGHT / 2, 48, colour=RANKS[rank])
    for side in (-1, 1):
        across, down = CARD_WIDTH / 2 - 15, CARD_HEIGHT / 2 - 18
        yield Text(rank, MIDDLE + side * across, top + CARD_HEIGHT / 2 + side * down, 13, colour=RANKS[rank])


def _back(left: float, top: float, width: float, height: float) -> Iterator[Shape]:
    """Yield the back of a card: a lattice of diagonals."""
    yield Block(left, top, width, height, colour=BACK, corner=6)
    middle, step = (left + width / 2, top + height / 2), 19
    for row in range(-2, 3):
        for column in range(-1, 2):
            x, y = middle[0] + column * step, middle[1] + row * step
            diamond = ((x, y - 7), (x + 7, y), (x, y + 7), (x - 7, y), (x, y - 7))
            yield Stroke(diamond, 2.2, BACK_LIGHT)


def _label(word: str, y: float) -> Iterator[Shape]:
    """Yield a player's last move in a bubble to the right of its card."""
    x = MIDDLE + 122
    yield Block(x - 46, y - 17, 92, 34, colour=CREAM, corner=17)
    yield Text(word, x, y, 13, colour=INK)


def _chip(x: float, y: float) -> Iterator[Shape]:
    yield Disc(x, y + 2.5, 14, SHADE, opacity=0.5, blur=5)
    yield Disc(x, y, 14, CHIP)
    for across, down in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        yield Stroke(((x + 11.5 * across, y + 11.5 * down), (x + 12 * across, y + 12 * down)), 4.2, CARD)
    yield Disc(x, y, 8.6, CARD)
    yield Disc(x, y, 7, CHIP)
