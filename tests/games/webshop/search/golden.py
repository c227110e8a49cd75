"""Answers of the real Lucene and thefuzz. `tests/games/webshop/fixture_makers` holds the scripts that queried them."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any


def golden(name: str) -> Any:
    """The content of a fixture."""
    return json.loads(lzma.decompress((Path(__file__).parent / "fixtures" / f"{name}.json.xz").read_bytes()))
