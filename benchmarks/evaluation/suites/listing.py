"""`mage-bench list`: panels with sizes and fingerprints, suites with their settings, and the kinds of agents."""

from __future__ import annotations

import argparse
import sys

from benchmarks.evaluation.run.agents import FORMS
from benchmarks.evaluation.suites.panels import BASES, SIZES
from benchmarks.evaluation.suites.paper import EPISODES, PROTOCOLS, SUITES, setting_for


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `mage-bench list`."""
    parser.epilog = "Example: mage-bench list"
    parser.add_argument(
        "--suites", action="store_true", help="Also list every setting of every suite with its fingerprint"
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the list to stdout."""
    rows = [(f"{name}-{size}", *_panel_row(f"{name}-{size}"), BASES[name].about) for name in BASES for size in SIZES]
    width = max(len(row[0]) for row in rows)
    lines = ["Panels (--panel NAME; without a number the 512), at K = 3, protocol adaptive, memory reflection"]
    lines += [
        f"  {name:<{width}}  {count:>4}  {found}  {calls:>7}  {about}" for name, count, found, calls, about in rows
    ]
    lines += ["", "Columns: meta-episodes, fingerprint, model calls at most.", "", "Suites"]
    for name, suite in SUITES.items():
        lines.append(f"  {name}: {suite.about}; K = {' and '.join(map(str, EPISODES))}, {' and '.join(PROTOCOLS)}")
        lines += [f"    {panel}" for panel in suite.panels]
        if arguments.suites:
            lines += [
                f"      {protocol:<8}  K = {episodes:>2}  {' '.join(_panel_row(panel, protocol, episodes))}"
                for panel in suite.panels
                for protocol in PROTOCOLS
                for episodes in EPISODES
            ]
    lines += ["", "Agents (mage-bench eval AGENT)"]
    width = max(map(len, FORMS))
    lines += [f"  {form:<{width}}  {about}" for form, about in FORMS.items()]
    sys.stdout.write("\n".join(lines) + "\n")


def _panel_row(panel: str, protocol: str = "adaptive", episodes: int = 3) -> tuple[str, str, str]:
    """Return the number of meta-episodes, the fingerprint and the maximum number of calls of a setting."""
    setting = setting_for(panel, protocol=protocol, num_episodes=episodes)
    # The data of some panels are not on every machine: such a panel is listed with dashes.
    try:
        return str(len(setting.tasks)), setting.fingerprint[:12], str(setting.most_calls)
    except (ImportError, ValueError, OSError):
        return "-", "-" * 12, "-"
