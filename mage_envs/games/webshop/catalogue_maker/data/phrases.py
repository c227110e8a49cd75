"""Phrases of buyers and sellers. The weights follow the frequencies in 12,087 human instructions.

`{a}` is an attribute's wording, `{v}` an option value, `{w}` the number of items in a pack, and `{n}` the product. Only
the split `ood_phrase` uses the held-out lists.
"""

OPENERS = (
    (22, "i am looking for {n}"),
    (4, "i am looking to buy {n}"),
    (2, "i am looking to find {n}"),
    (12, "i'm looking for {n}"),
    (3, "im looking for {n}"),
    (6, "i would like {n}"),
    (4, "i would like to buy {n}"),
    (2, "i would like to find {n}"),
    (8, "i need {n}"),
    (5, "i want {n}"),
    (4, "i want to buy {n}"),
    (2, "i want to find {n}"),
    (3, "i need to buy {n}"),
    (2, "i need to find {n}"),
    (2, "i'm trying to find {n}"),
    (2, "i'm searching for {n}"),
    (1.5, "i am searching for {n}"),
    (1.5, "i am in need of {n}"),
    (1, "i'm interested in {n}"),
    (1, "i'd like {n}"),
    (1, "i am shopping for {n}"),
    (1, "i was hoping to find {n}"),
    (3, "find me {n}"),
    (2, "looking for {n}"),
    (1.5, "get me {n}"),
    (1, "can you find me {n}"),
    (0.8, "show me {n}"),
    (0.7, "please help me find {n}"),
    (0.5, "can you get me {n}"),
    (0.5, "shop for {n}"),
)
HELD_OUT_OPENERS = (
    (3, "do you happen to have {n}"),
    (3, "my sister asked me to pick up {n}"),
    (2, "on my list today is {n}"),
    (2, "we ran out and now have to order {n}"),
    (2, "could somebody point me to {n}"),
    (2, "what i am after is {n}"),
    (1, "the next thing to order would be {n}"),
    (1, "time to replace the old one with {n}"),
)

CLAUSES = {
    "a": ((4, "that is {a}"), (2, "which is {a}"), (1, "and it must be {a}")),
    "w": ((7, "with {a}"), (2, "that has {a}"), (1, "featuring {a}")),
    "m": ((5, "made of {a}"), (3, "made from {a}"), (1, "in {a}")),
    "f": ((6, "for {a}"), (2, "suitable for {a}"), (1, "good for {a}")),
    "t": ((5, "that {a}"), (1, "which {a}")),
}
PLURAL_CLAUSES = {
    **CLAUSES,
    "a": ((4, "that are {a}"), (2, "which are {a}"), (1, "and they must be {a}")),
    "w": ((7, "with {a}"), (2, "that have {a}"), (1, "featuring {a}")),
}
HELD_OUT_CLAUSES = {
    "a": ((1, "of the {a} kind"), (1, "described as {a}")),
    "w": ((1, "boasting {a}"), (1, "and do not forget {a}")),
    "m": ((1, "built out of {a}"), (1, "where the material is {a}")),
    "f": ((1, "meant for {a}"), (1, "to be used for {a}")),
    "t": ((1, "of the sort that {a}"), (1, "as long as {it} {a}")),
}
SENTENCES = {
    "a": ((3, "{it} should be {a}"), (1, "make sure {it} {is} {a}")),
    "w": ((3, "{it} should have {a}"), (1, "{it} must come with {a}")),
    "m": ((3, "{it} should be made of {a}"), (1, "{it} must be made from {a}")),
    "f": ((3, "{it} should be good for {a}"), (1, "{it} will be used for {a}")),
    "t": ((1, "make sure {it} {a}"), (1, "please check that {it} {a}")),
}
HELD_OUT_SENTENCES = {
    "a": ((1, "being {a} is a must"),),
    "w": ((1, "no deal without {a}"),),
    "m": ((1, "i insist on {a} as material"),),
    "f": ((1, "the purpose is {a}"),),
    "t": ((1, "i insist that {it} {a}"),),
}

# {n} is the place of the noun. A phrase without {n} follows the noun.
CHOICES = {
    "color": (
        (28, "{v} {n}"),
        (12, "{v} colored {n}"),
        (11, "in {v}"),
        (22, "in the color {v}"),
        (24, "in {v} color"),
        (4, "and the color should be {v}"),
        (4, "that comes in {v}"),
    ),
    "size": (
        (22, "in size {v}"),
        (16, "size {v}"),
        (6, "that is {v}"),
        (6, "in a size {v}"),
        (10, "in {v}"),
        (4, "and the size should be {v}"),
        (10, "{v} {n}"),
    ),
    "item package quantity": (
        (7, "{v} {n}"),
        (5, "{w} pack {n}"),
        (5, "in a pack of {w}"),
        (3, "that comes in a pack of {w}"),
        (3, "pack of {w}"),
    ),
    "flavor name": (
        (8, "{v} flavored {n}"),
        (4, "in {v} flavor"),
        (5, "with {v} flavor"),
        (3, "{v} {n}"),
        (2, "and the flavor should be {v}"),
    ),
    "flavor": ((6, "{v} flavored {n}"), (4, "in {v} flavor"), (3, "that tastes like {v}")),
    "scent": ((6, "{v} scented {n}"), (4, "with {v} scent"), (4, "that smells like {v}"), (2, "in the scent {v}")),
    "style": ((6, "in {v} style"), (5, "in the {v} style"), (3, "{v} {n}"), (2, "and the style should be {v}")),
}
HELD_OUT_CHOICES = {
    "color": ((1, "preferably the {v} variant"), (1, "as long as {v} is the shade")),
    "size": ((1, "measuring {v}"), (1, "as long as {v} is available")),
    "item package quantity": ((1, "bundled by {w}"), (1, "sold as {v}")),
    "flavor name": ((1, "tasting of {v}"), (1, "as long as {v} is the taste")),
    "flavor": ((1, "tasting of {v}"),),
    "scent": ((1, "smelling of {v}"),),
    "style": ((1, "as the {v} version"), (1, "going by {v}")),
}
FRUGAL = "at a fair price"

PACKS = {
    "twin pack": ("2", "two"),
    "three pack": ("3", "three"),
    "four pack": ("4", "four"),
    "six pack": ("6", "six"),
    "eight pack": ("8", "eight"),
    "ten pack": ("10", "ten"),
    "dozen": ("12", "twelve"),
}

BULLETS = {
    "a": ("{A}: {b}", "{A} - {b}", "{This} {n} {is} {a}: {b}", "【{A}】 {b}", "{A} and {b}", "Enjoy {a} quality: {b}"),
    "w": ("{A}: {b}", "With {a}, {b}", "Features {a} - {b}", "【{A}】 {b}", "Comes with {a}; {b}", "{A} ☆ {b}"),
    "m": ("Made of {a}, {b}", "{A}: {b}", "Material: {a}; {b}", "【{A}】 {b}", "Crafted from {a}, {b}"),
    "f": ("Great for {a}: {b}", "For {a} - {b}", "{A}: {b}", "【For {A}】 {b}", "Designed with {a} in mind, {b}"),
    "t": ("{A}: {b}",),
}
PLAIN_BULLETS = (
    "{N}: {b}",
    "What you get - {b}",
    "{B}",
    "{B}; {b2}",
    "Our promise: {b}",
    "WORRY FREE: {b}, {b2}",
    "A note on care - {b}",
)
DESCRIPTION_ATTRIBUTES = {
    "a": ("{This} {n} {is} {a}.", "You asked for {a}, and here it is.", "As with all we make: {a}."),
    "w": ("{This} {n} {come} with {a}.", "Look closer and you find {a}.", "Equipped with {a}."),
    "m": ("{This} {n} {is} made of {a}.", "We chose {a} for the main part.", "Material: {a}."),
    "f": ("{This} {n} {is} intended for {a}.", "Many buy it for {a}.", "Best for {a}."),
    "t": ("{This} {n} {is} said to {a}.",),
}
DESCRIPTION_STARTS = (
    "Meet the {brand} {n}.",
    "{brand} presents: {n}.",
    "About {n} by {brand}:",
    "Why {brand}?",
    "Product description",
    "Thank you for visiting {brand}.",
)
STUFFING = (
    "Sale Clearance",
    "#1 Best",
    "Deals of the Day",
    "2022 Upgraded",
    "HOT SALE!!",
    "Limited Offer",
    "Top Rated",
)
MODELS = (
    "Aria",
    "Nova",
    "Classic II",
    "Series 3",
    "Willow",
    "Pro X",
    "Luna",
    "Everly",
    "Terra",
    "No. 7",
    "Mk2",
    "Solstice",
)
