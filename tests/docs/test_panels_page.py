"""docs/panels.md: the names are panels, and the values are those of the recorded table of headroom."""

from __future__ import annotations

import json
import re
from typing import Any

from mage_envs.benchmarks.evaluation.suites.panels import named_panel
from tests.processes import ROOT

PAGE = (ROOT / "docs" / "panels.md").read_text()
NUMBER = r"([\d.]+)"
ROW = re.compile(rf"\| `([\w-]+)` \| (.+?) \| {NUMBER} \| {NUMBER} \| {NUMBER} \|")


def read_headroom(pool: str, success: bool) -> dict[str, Any]:
    rows = json.loads((ROOT / "benchmarks" / "results" / "headroom.json").read_text())
    [entry] = [
        row
        for row in rows
        if row["pool"] == pool
        and not row["options"]
        and row["hands"] == 1
        and row.get("episodes", 3) == 3
        and (row["objective"] == "success") == success
    ]
    values: dict[str, Any] = entry["headroom"]
    return values


def test_values_are_the_recorded_ones() -> None:
    rows = ROW.findall(PAGE)
    assert len(rows) >= 7
    for name, unit, blind, last_value, reachable in rows:
        pool = str(named_panel(name).opponents).removeprefix("pool:")
        values = read_headroom(pool, unit == "success")
        # The page shows three digits.
        assert abs(float(blind) - values["blind"]) < 0.00051, name
        assert abs(float(last_value) - values["per_episode"]["last"][2]) < 0.00051, name
        assert abs(float(reachable) - values["reachable"]) < 0.00051, name


def test_names_are_panels() -> None:
    for name in re.findall(r"`([a-z\d]+(?:-[a-z\d]+)+)`", PAGE):
        assert named_panel(name).about, name
