"""`mage list`: games with ids and opponents, OpenSpiel's games, pools, memories, panels, suites, kinds of agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from textwrap import fill
from typing import Annotated, Any, NamedTuple

import typer

import mage_envs
from mage_envs.cli.commands import JsonOption, print_json
from mage_envs.cli.keyboard import screen_width
from mage_envs.cli.tables import TextTable, print_report
from mage_envs.loading.arguments import nearest_name
from mage_envs.registry import explain_unavailable

OPENSPIEL = "OpenSpiel"
"""Game that stands for all of OpenSpiel's."""
WIDE = 60
"""Width in columns from which names are printed beside their title."""


class Part(NamedTuple):
    """A part of the list."""

    values: Callable[[], Sequence[Any]]
    """Function that returns the entries as JSON values."""
    show: Callable[[Sequence[Any]], None]
    """Function that prints the entries."""


def command(
    game: Annotated[
        str | None,
        typer.Argument(
            metavar="GAME|PART",
            help="Name of a game, as in KuhnPoker or OpenSpiel's kuhn_poker, or one of games, openspiel, opponents, "
            "pools, memories, panels, suites and agents (default: games, openspiel, pools and memories)",
        ),
    ] = None,
    settings: Annotated[
        bool, typer.Option(help="With suites: list every setting of every suite with its fingerprint")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List games, opponents, memories, panels, suites and agents.

    Example: mage list KuhnPoker
    """
    if settings and game != "suites":
        raise ValueError("--settings applies only to suites. Use mage list suites --settings.")
    parts = _parts(settings)
    if game is None:
        chosen_parts = {name: parts[name] for name in ("games", "openspiel", "pools", "memories")}
    elif game in parts:
        chosen_parts = {game: parts[game]}
    elif game in mage_envs.list_games():
        chosen_parts = {"games": Part(lambda: [_game(game)], _show_games)}
    elif game in (openspiel := {entry["name"]: entry for entry in _openspiel()}):
        chosen_parts = {"games": Part(lambda: [_openspiel_game(openspiel[game])], _show_games)}
    else:
        near = nearest_name(game, [*parts, *mage_envs.list_games(), *openspiel])
        raise ValueError(
            f"Unknown game or part {game!r}.{near} Parts are {', '.join(parts)}; mage list prints all games."
        )
    values = {name: part.values() for name, part in chosen_parts.items()}
    if as_json:
        print_json(values)
        return
    for name, part in chosen_parts.items():
        part.show(values[name])
    if game is None:
        _show_wrapped("more", [f"mage list {name}" for name in parts if name not in chosen_parts])


def _parts(settings: bool) -> Mapping[str, Part]:
    """Return all parts by name. `settings` adds their settings to the suites."""
    return {
        "games": Part(lambda: [_game(name) for name in mage_envs.list_games()], _show_games),
        "openspiel": Part(_openspiel, _show_openspiel),
        "opponents": Part(_opponents, _show_opponents),
        "pools": Part(
            lambda: [f"pool:{name}" for name in mage_envs.list_pools()], lambda names: _show_wrapped("pools", names)
        ),
        "memories": Part(mage_envs.list_memories, lambda names: _show_wrapped("memories", names)),
        "panels": Part(_panels, _show_panels),
        "suites": Part(lambda: _suites(settings), _show_suites),
        "agents": Part(_agents, _show_agents),
    }


def _openspiel_game(entry: Mapping[str, str]) -> dict[str, Any]:
    """Return a game of OpenSpiel under its own name, with the ids and opponents of all of them."""
    return {**_game(OPENSPIEL), "name": entry["name"], "option": f"game={entry['name']}", "class": entry["class"]} | (
        {"missing": entry["reason"]} if entry["reason"] else {}
    )


def _game(name: str) -> dict[str, Any]:
    # A game of another package may fail, and must not cost the rows of the others.
    if reason := explain_unavailable(name):
        return {"name": name, "ids": _ids(name), "opponents": [], "missing": reason}
    players = mage_envs.load_game(name).spec.players
    opponents = (*mage_envs.list_opponents(name), *mage_envs.list_forms(name)) if players > 1 else ()
    return {"name": name, "ids": _ids(name), "opponents": list(opponents)}


def _ids(name: str) -> list[str]:
    return [f"mage/{name}-v0", f"mage/{name}-Meta-v0"]


def _show_games(games: Sequence[Mapping[str, Any]]) -> None:
    for game in games:
        print(game["name"])
        _show_wrapped("ids", game["ids"])
        for title in ("option", "class"):
            if title in game:
                _show_wrapped(title, [game[title]])
        if "missing" in game:
            _print_filled(f"n/a: {game['missing']}", indent=2)
        if game["opponents"]:
            _show_wrapped("opponents", game["opponents"])


def _opponents() -> list[dict[str, Any]]:
    from mage_envs.opponents import list_kinds

    return [{"kind": kind, "opponents": list(names)} for kind, names in list_kinds().items()]


def _show_opponents(kinds: Sequence[Mapping[str, Any]]) -> None:
    abouts = {
        "fixed": "play every episode alike",
        "searching": "compute their moves from the rules",
        "learning": "use earlier episodes, or change between them",
        "model": "language models",
    }
    for row in kinds:
        print(f"{row['kind']}: {abouts[row['kind']]}")
        _print_filled("  ".join(row["opponents"]), indent=2)


def _openspiel() -> list[dict[str, str]]:
    if OPENSPIEL not in mage_envs.list_games():
        return []
    from mage_envs.games.openspiel.catalogue import catalogue

    return [{"name": name, "class": kind, "reason": reason} for name, (kind, reason) in catalogue().items()]


def _show_openspiel(games: Sequence[Mapping[str, str]]) -> None:
    if not games:
        return
    from mage_envs.games.openspiel.catalogue import CLASSES

    print("OpenSpiel (game=NAME)")
    for kind, meaning in CLASSES.items():
        _print_filled(f"{kind}: {meaning}", indent=2)
        members = [game for game in games if game["class"] == kind]
        if any(game["reason"] for game in members):
            for game in members:
                _print_filled(f"{game['name']}: {game['reason']}", indent=4)
        else:
            _print_filled("  ".join(game["name"] for game in members), indent=4)


def _print_filled(text: str, indent: int) -> None:
    """Print a text on as many lines as the screen needs."""
    margin = " " * indent
    print(fill(text, screen_width(), initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False))


def _show_wrapped(title: str, names: Sequence[str]) -> None:
    """Print the names with two blanks between them, beside the title, or below it on a narrow screen."""
    width = screen_width()
    indent = " " * (13 if width >= WIDE else 4)
    lines: list[str] = []
    for name in names:
        if lines and len(indent) + len(lines[-1]) + 2 + len(name) <= width:
            lines[-1] += f"  {name}"
        else:
            lines.append(name)
    if width < WIDE:
        print(f"  {title}")
    for number, line in enumerate(lines):
        print((f"  {title:<11}" if number == 0 and width >= WIDE else indent) + line)


# The functions below import the evaluation, which takes a second that the list of games does not need.


def _panels() -> list[dict[str, Any]]:
    from mage_envs.benchmarks.evaluation.suites.panels import base_panels

    return [
        {"name": f"{name}-{size}", **_setting(f"{name}-{size}"), "about": panel.about}
        for name, panel in base_panels().items()
        for size in panel.sizes
    ]


def _show_panels(panels: Sequence[Mapping[str, Any]]) -> None:
    columns = ["panel", "meta-episodes", "fingerprint", "calls at most", "about"]
    rows = [[panel["name"], *_cells(panel), panel["about"]] for panel in panels]
    title = [
        "Panels (--panel NAME; without a number the first size), at K = 3, protocol adaptive, memory reflection;",
        "those of the paper, paper-..., at K = 10, protocol paper",
    ]
    print_report([*title, TextTable(columns, rows, text=(0, 2, 4))])


def _suites(settings: bool) -> list[dict[str, Any]]:
    from mage_envs.benchmarks.evaluation.suites.paper import SUITES

    suites: list[dict[str, Any]] = []
    for name, suite in SUITES.items():
        lengths = {"episodes": list(suite.lengths), "protocols": list(suite.protocols)}
        suites.append({"name": name, "about": suite.about, **lengths, "panels": list(suite.panels)})
        if settings:
            suites[-1]["settings"] = [
                {
                    "panel": panel,
                    "protocol": protocol,
                    "episodes": episodes,
                    **_setting(panel, protocol=protocol, num_episodes=episodes),
                }
                for panel in suite.panels
                for protocol in suite.protocols
                for episodes in suite.lengths
            ]
    return suites


def _show_suites(suites: Sequence[Mapping[str, Any]]) -> None:
    print("Suites")
    for suite in suites:
        lengths = " and ".join(map(str, suite["episodes"]))
        print(f"  {suite['name']}: {suite['about']}; K = {lengths}, {' and '.join(suite['protocols'])}")
        for panel in suite["panels"]:
            print(f"    {panel}")
        for setting in suite.get("settings", ()):
            print(f"      {setting['protocol']:<8}  K = {setting['episodes']:>2}  {' '.join(_cells(setting))}")


def _setting(panel: str, **options: Any) -> dict[str, Any]:
    """Return the number of meta-episodes, the fingerprint and the maximum number of calls of a setting."""
    from mage_envs.benchmarks.evaluation.suites.paper import setting_for

    setting = setting_for(panel, **options)
    facts: tuple[Any, ...] = (None, None, None)
    # The data of some panels are not on every machine: such a panel is listed with dashes, or null in JSON.
    with suppress(ImportError, ValueError, OSError):
        facts = len(setting.tasks), setting.fingerprint, setting.most_calls
    return dict(zip(("meta_episodes", "fingerprint", "max_calls"), facts, strict=True))


def _cells(setting: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the values of `_setting` as text."""
    if setting["fingerprint"] is None:
        return "-", "-" * 12, "-"
    return str(setting["meta_episodes"]), setting["fingerprint"][:12], str(setting["max_calls"])


def _agents() -> list[dict[str, str]]:
    from mage_envs.benchmarks.evaluation.run.agents import FORMS

    return [{"form": form, "about": about} for form, about in FORMS.items()]


def _show_agents(agents: Sequence[Mapping[str, str]]) -> None:
    rows = [[agent["form"], agent["about"]] for agent in agents]
    print_report(["Agents (mage eval AGENT)", TextTable(["agent", "about"], rows, text=(0, 1))])
