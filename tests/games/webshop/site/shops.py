"""Shops whose texts attack the page, and whose goal has words of its own; and a visitor without a browser."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import numpy as np

from mage_envs.games.webshop.official import import_official
from mage_envs.games.webshop.shop import open_shop
from mage_envs.games.webshop.site import create_app
from mage_envs.web.security import host_names
from tests.games.webshop.raw import raw
from tests.untrusted.harmless import ATTACKS

ROOT = "http://127.0.0.1:3000"
HOSTILE = [
    raw(
        f"B0HOSTILE{number}",
        f"Canvas shoe {attack}",
        full_description=f"About {attack}",
        small_description=[f"First {attack}", attack],
        category=attack,
        images=[attack],
        options={f"color {attack}": [attack, f"plain {attack}", "red"], "size": ["6", "7"]},
    )
    for number, attack in enumerate(ATTACKS)
] + [
    raw("../../x", "Canvas shoe with a path for a name"),
    raw("a/b?c#d%2f", "Canvas shoe with an address for a name", options={"color": ["red", "blue"]}),
]

SECRET = [
    raw(
        "B0SECRET00",
        "Zebra Secretword Lantern",
        category="secretcategory",
        query="secretquery",
        product_category="Secretroot › Secretleaf",
        full_description="Secretdescription",
        small_description=["Secretbullet"],
        options={"color": ["secretoption"]},
        pricing="$17.00",
        images=["https://secrethost.example/x.jpg"],
    ),
    *(raw(f"B0PLAIN00{number}", f"Canvas shoe number {number}", options={"size": ["6", "7"]}) for number in range(9)),
]


def write_shop(folder: Path, products: list[dict], attributes: dict, human: dict):
    """The shop of some raw products with people's goals."""
    (folder / "items_shuffle_1000.json").write_text(json.dumps(products), "utf-8")
    (folder / "items_ins_v2_1000.json").write_text(json.dumps(attributes), "utf-8")
    (folder / "items_human_ins.json").write_text(json.dumps(human), "utf-8")
    return open_shop(import_official(folder), "human", 0)


def goal(instruction: str, attributes: list[str], options: list[str]) -> list[dict]:
    return [{"instruction": instruction, "instruction_attributes": attributes, "instruction_options": options}]


class Visitor:
    """Flask's test client with a person's eyes: it fills the forms of the page that it is on."""

    def __init__(self, shop, **options):
        options.setdefault("rng", np.random.default_rng(0))
        options.setdefault("hosts", host_names(3000))
        self.app = create_app(shop, **options)
        self.client = self.app.test_client()
        self.answer = None

    @property
    def page(self) -> str:
        return self.answer.get_data(as_text=True)

    @property
    def path(self) -> str:
        return self.answer.request.path

    @property
    def texts(self) -> str:
        """The page without its tags."""
        return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", self.page)))

    def read_hidden_field(self, name: str) -> str:
        return re.search(rf'name="{name}" value="([^"]*)"', self.page)[1]

    def get(self, path: str, **options):
        self.answer = self.client.get(path, base_url=ROOT, follow_redirects=True, **options)
        return self

    def post(self, path: str, form: dict[str, str], **options):
        self.answer = self.client.post(path, data=form, base_url=ROOT, follow_redirects=True, **options)
        return self

    def start(self, split: str = "train", position: int | None = 0):
        """Begins a visit from the first page; place None: with a random goal."""
        self.get("/")
        form = {"form_key": self.read_hidden_field("form_key"), "split": split}
        return self.post("/visits", form if position is None else form | {"goal": str(position)})

    def search(self, query: str):
        """Types a query into the search page, or sends one from elsewhere."""
        return self.post("/search", {"form_key": self.read_hidden_field("form_key"), "search_query": query})

    def click(self, name: str, **options: str):
        """Presses the button of that name, with options by their field."""
        keys = {name: self.read_hidden_field(name) for name in ("form_key", "step")}
        option_fields = {field.replace("_", "-"): value for field, value in options.items()}
        return self.post("/click", keys | option_fields | ({"click": name} if name else {}))
