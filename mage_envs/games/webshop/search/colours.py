"""The colour of an option, as WebShop's reward determines it."""

from __future__ import annotations

from functools import lru_cache

_NAMES = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream crystal
dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather indigo ivory
ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom
mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand sapphire
seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut wheat white
wine yellow
"""

COLOURS = tuple(_NAMES.split())
"""Colours in WebShop's order, which decides: "dark red" becomes "dark", and "charcoal black" becomes "black".

The names and their order are data of princeton-nlp/WebShop (MIT licence), `web_agent_site/engine/normalize.py`.
"""


@lru_cache(maxsize=1 << 16)
def normalize_colour(value: str) -> str:
    """Return the first of `COLOURS` that the value contains ("shared" contains "red"), or the value if none."""
    return next((colour for colour in COLOURS if colour in value), value)
