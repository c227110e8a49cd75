"""What real Lucene and thefuzz answered; `benchmarks/webshop_fixtures` holds the scripts that asked them."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any


def golden(name: str) -> Any:
    """The content of a fixture."""
    return json.loads(lzma.decompress((Path(__file__).parent / "fixtures" / f"{name}.json.xz").read_bytes()))
