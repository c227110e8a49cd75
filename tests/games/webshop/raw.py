"""A small catalogue in the official files' form, written by hand: every quirk of the schema has a product here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def raw(asin: str, name: str, **fields: Any) -> dict[str, Any]:
    """A raw product; options as {axis: [value, ...]}."""
    options = fields.pop("options", None)
    product: dict[str, Any] = {
        "asin": asin,
        "name": name,
        "category": "fashion",
        "query": "women's shoes",
        "product_category": "Clothing › Women › Shoes › Flats",
        "full_description": "",
        "small_description": ["Rubber sole"],
        "pricing": "$24.50",
        "images": [f"https://example.org/{asin}.jpg"],
        "customization_options": options
        and {axis: values and [{"value": value} for value in values] for axis, values in options.items()},
        "brand": "Unread",
        "seller_id": 7,
        "average_rating": 4.5,
    }
    return product | fields


TEA = {"category": "grocery", "query": "herbal tea", "product_category": "Grocery › Beverages › Tea › Herbal"}
DESK = {"category": "garden", "query": "standing desk", "product_category": "Home › Furniture › Desks › Standing"}
CREAM = {"category": "beauty", "query": "face cream", "product_category": "Beauty › Skin › Face › Creams"}
CABLE = {"category": "electronics", "query": "usb cable", "product_category": "Electronics › Cables › USB › Chargers"}

PRODUCTS = [
    raw(
        "B000000001",
        "Alba Canvas Ballet Flats Shoes for Women",
        options={"Color": ["Royal Blue", " Red ", "Black/White"], "Size": ["6", "7", "8.5"]},
        full_description="Light flats with a machine washable upper.",
        small_description=["Rubber sole", "Non slip"],
    ),
    raw("B000000002", "Borea Suede Loafers", options={"color": ["red", "green"], "size": ["6", "7"]}, pricing="$39.99"),
    raw("B000000003", "Cinder Sandals", options={"color": None, "Size": ["7"]}, pricing=None, small_description="One"),
    raw("B000000004", "Dorset Clogs", options={}, pricing="", full_description="Clogs with a non slip sole."),
    raw("B000000005", "Ember Ankle Boots", customization_options="", pricing="$1,299.00"),
    raw("B000000006", "Fjord Rain Boots", customization_options=None, pricing="$10.00 - $30.00"),
    raw("B000000007", "Gala Heels", options={"style": ["buy now", "search", "description", "plain"]}, pricing="$980"),
    raw("B000000008", "Heath Slippers", options={"Color": ["pink"], "COLOR": ["grey"], "pattern": ["grey", "x [2]"]}),
    raw("B000000009", "Iris Moccasins", options={"size": ["", "6", "6"]}, pricing="$970.00", small_description=[]),
    raw(
        "B00000000A",
        'Juno <b>Bold</b> & "Quoted" Pumps',
        options={"color": ["it's <red>", 'a "b"', "é blue"]},
        full_description="Line one\nline two & more",
        small_description=[" ", "", "\n ", "Last <point>"],
    ),
    raw(
        "B00000000B",
        "Alba Herbal Tea Sampler",
        options={"flavor name": ["mint", "ginger"], "size": ["pack of 2"]},
        pricing="$9.99 $12.50 $99.00",
        full_description="Caffeine free tea.",
        **TEA,
    ),
    raw("B00000000C", "Brook Peppermint Tea", pricing="$10.00", full_description="Organic leaves", **TEA),
    raw("B00000000D", "Clove Chai Tea Bags", pricing="US$4.25", small_description=["Gluten free", "Sugar free"], **TEA),
    raw("B00000000E", "Dune Chamomile Tea", pricing="$7.00", **TEA),
    raw("B00000000F", "Atlas Electric Standing Desk", options={"color": ["oak", "white"]}, pricing="$240.00", **DESK),
    raw("B00000000G", "Birch Corner Desk", pricing="$180.00", full_description="Solid wood desk", **DESK),
    raw("B00000000H", "Cedar Desk Converter", pricing="$955.00", **DESK),
    raw("B00000000J", "Aura Night Cream", options={"size": ["1.7 oz / 50 ml", "3.4 oz"]}, pricing="$18.00", **CREAM),
    raw("B00000000K", "Bliss Day Cream", pricing="$21.00", full_description="Fragrance free face cream", **CREAM),
    raw("B00000000L", "Calm Eye Cream", pricing="$19.00", **CREAM),
    raw(
        "B00000000M",
        "Arc USB Cable Charger",
        options={"length": [f"{n} ft" for n in range(1, 31)]},
        pricing="$6.00",
        **CABLE,
    ),
    raw("B00000000N", "Bolt Fast Charging Cable", pricing="$8.00", **CABLE),
    raw("b0lower999", "Lower Case Cable", pricing="$8.50", **CABLE),
    raw("B000000001", "A Repeated Asin"),
    raw("nan", "No Asin"),
    raw("B0000000LONG", "Too Long An Asin"),
]

ATTRIBUTES: dict[str, dict[str, Any]] = {
    "B000000001": {
        "attributes": ["rubber sole", "machine wash", "arch support"],
        "instruction": "Find me women's flats",
        "instruction_attributes": ["machine wash", "rubber sole"],
    },
    "B000000002": {"attributes": ["leather lining"], "instruction": None, "instruction_attributes": None},
    "B000000003": {"attributes": [], "instruction": "Find me sandals", "instruction_attributes": ["open toe"]},
    "B000000006": {"attributes": ["water proof"], "instruction": "Find me rain boots", "instruction_attributes": []},
    "B000000009": {
        "attributes": ["hand made"],
        "instruction": "Find me moccasins",
        "instruction_attributes": ["hand made"],
    },
    "B00000000B": {
        "attributes": ["caffeine free"],
        "instruction": "Find me herbal tea",
        "instruction_attributes": ["caffeine free"],
    },
    "B00000000F": {
        "attributes": ["height adjustable"],
        "instruction": "Find me a desk",
        "instruction_attributes": ["height adjustable"],
    },
    "B00000000M": {
        "attributes": ["fast charging"],
        "instruction": "Find me a cable",
        "instruction_attributes": ["fast charging"],
    },
    "B00000000J": {},
}

HUMAN = {
    "B000000001": [
        {
            "instruction": "i want blue flats I can wash.",
            "instruction_attributes": ["machine wash"],
            "instruction_options": ["royal blue", "7"],
            "worker_id": "unread",
        },
        {"instruction": "this one asks for nothing", "instruction_attributes": [], "instruction_options": []},
        {
            "instruction": "...flats with a rubber sole...",
            "instruction_attributes": ["rubber sole"],
            "instruction_options": {"size": "7"},
        },
    ],
    "B00000000K": [
        {
            "instruction": "i need a fragrance free cream",
            "instruction_attributes": ["fragrance free"],
            "instruction_options": [],
        }
    ],
    "B000000007": [{"instruction": "i need heels", "instruction_attributes": ["heel"], "instruction_options": []}],
    "B00GONE000": [{"instruction": "not sold", "instruction_attributes": ["x"], "instruction_options": []}],
}


def write_official(folder: Path, *, human: bool = True, size: str = "_1000") -> Path:
    """The official files in `folder`."""
    (folder / f"items_shuffle{size}.json").write_text(json.dumps(PRODUCTS), "utf-8")
    (folder / f"items_ins_v2{size}.json").write_text(json.dumps(ATTRIBUTES, indent=1), "utf-8")
    if human:
        (folder / "items_human_ins.json").write_text(json.dumps(HUMAN, ensure_ascii=False), "utf-8")
    return folder
