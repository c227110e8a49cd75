"""Tables of docs/*.md that follow from the registered games: `python -m dev.doc_tables` rewrites them.

A table stands between `<!-- table: NAME -->` and `<!-- end of table -->`. Its texts are in the docstrings of the games
and of the modules that register their opponents. `tests/docs/test_doc_tables.py` checks that the pages are up to date.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

import gymnasium as gym

from mage_envs import list_opponents, list_pools, load_game, opponent_info, settings_of
from mage_envs.loading.imports import load_entry
from mage_envs.opponents import OpponentInfo, list_forms
from mage_envs.registry import opponent_modules
from mage_envs.trainer.cli.help import field_type, grouped_fields

ROOT = Path(__file__).parent.parent
PAGES = ("docs/environments.md", "docs/opponents.md", "docs/training_options.md")
_BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def games() -> tuple[str, ...]:
    """Return the games of this package in the order of their registration."""
    # Gymnasium keeps the order of registration, while `list_games` sorts the names.
    ids = [re.fullmatch(r"mage/(\w+)-Meta-v0", name) for name in gym.registry]
    names = [match[1] for match in ids if match]
    # Another package may announce games of its own.
    return tuple(name for name in names if load_game(name).__module__.startswith("mage_envs.games."))


def summary(docstring: str | None) -> str:
    """Return the first paragraph of a docstring on one line, without its last full stop."""
    paragraph, _, _ = inspect.cleandoc(docstring or "").partition("\n\n")
    return " ".join(paragraph.split()).removesuffix(".")


def section(game: type, title: str) -> str:
    """Return a section of a game's docstring on one line, or of the nearest base class that has it.

    Raises:
        ValueError: If no docstring has it.
    """
    pattern = re.compile(rf"^{title}: (.*?)(?:\n\n|\Z)", re.DOTALL | re.MULTILINE)
    for owner in game.__mro__:
        match = pattern.search(inspect.cleandoc(owner.__doc__ or ""))
        if match:
            return " ".join(match[1].split()).removesuffix(".")
    raise ValueError(f"The docstring of {game.__name__} must have a section '{title}: ...'.")


def options(game: type) -> Mapping[str, str]:
    """Return the options in the section Args of a game's docstring, each with its description."""
    _, _, text = inspect.cleandoc(game.__doc__ or "").partition("Args:\n")
    lines = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", text.partition("\n\n")[0], re.MULTILINE)
    return {name: " ".join(described.split()) for name, described in lines}


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    head, rule = f"| {' | '.join(columns)} |\n", f"|{'---|' * len(columns)}\n"
    return head + rule + "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def ids_table() -> str:
    """Return the table of ids: what each game is, and what counts as a success."""
    rows = []
    for name in games():
        game = load_game(name)
        rows.append((f"`mage/{name}-…`", _seats(name), summary(game.__doc__), section(game, "Success")))
    return table(("id", "seats", "what", "success"), rows)


def _seats(name: str) -> str:
    # The adapter has as many players as the game that it loads.
    return "any" if name == "OpenSpiel" else str(load_game(name).spec.players)


def options_table() -> str:
    """Return the table of the games' own options. A game with a page of its own is described there."""
    rows = []
    for name in games():
        # A second description of the options here could contradict that page.
        page = f"{name.lower()}.md"
        if (ROOT / "docs" / page).exists():
            rows.append((name, "", f"[{page}]({page})"))
        else:
            rows += [(name, f"`{option}`", text) for option, text in options(load_game(name)).items()]
    return table(("game", "option", "meaning"), rows)


def seats_table() -> str:
    """Return the table of the games in which the learner has one seat by default."""
    seats = [(name, settings_of(name).seat) for name in games()]
    return table(("game", "default `seat`"), [(name, f"`{seat}`") for name, seat in seats if seat])


def opponents_table() -> str:
    """Return the table of the opponents of each game: names with their arguments, and pools."""
    rows = []
    for prefix, module in opponent_modules().items():
        infos = [opponent_info(name) for name in list_opponents() if name.startswith(f"{prefix}/")]
        plays = sorted({game for info in infos for game in info.games or ()})
        # Players of games for one player are described on the pages of those games.
        if any(load_game(game).spec.players == 1 for game in plays):
            continue
        names = [f"{info.name}{_arguments(info)}" for info in infos]
        names += [form for form in list_forms() if form.startswith(f"{prefix}/")]
        name_list = ", ".join(f"`{name.removeprefix(f'{prefix}/')}`" for name in names)
        pools = ", ".join(f"`{pool}`" for pool in list_pools() if pool.startswith(f"{prefix}/"))
        rows.append((f"`{prefix}/...`", ", ".join(plays), name_list, pools, summary(import_module(module).__doc__)))
    return table(("prefix", "plays", "names", "pools", "description"), rows)


def _arguments(info: OpponentInfo) -> str:
    """Return the optional arguments of an opponent as `[:first,second]`."""
    builder = load_entry(info.builder) if isinstance(info.builder, str) else info.builder
    parameters = list(inspect.signature(builder).parameters.values())[int(info.needs_game) :]
    names = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
    return f"[:{','.join(names)}]" if names else ""


def training_options_table() -> str:
    """Return the tables of the fields of a training run, one per group."""
    parts = []
    for title, items in grouped_fields().items():
        rows = []
        for item in items:
            text = " ".join(item.metadata["help"].split())
            # The help ends with the default, which has a column of its own here.
            match = re.fullmatch(r"(.*) \(default: (.*)\)\.", text)
            about, default = (text, "") if match is None else (f"{match[1]}.", match[2])
            rows.append((f"`--{item.name}`", field_type(item), default, about.replace("|", "\\|")))
        parts.append(f"## {title}\n\n" + table(("flag", "type", "default", "meaning"), rows))
    return "\n" + "\n".join(parts) + "\n"


TABLES: Mapping[str, Callable[[], str]] = {
    "ids": ids_table,
    "options": options_table,
    "seats": seats_table,
    "opponents": opponents_table,
    "training_options": training_options_table,
}
"""Names of the tables."""


def rewritten(text: str) -> str:
    """Return a page with its tables made anew."""
    return _BLOCK.sub(lambda block: f"{block[1]}{TABLES[block[2]]()}{block[3]}", text)


def main(check: bool = False) -> None:
    """Rewrite the tables of all pages; with `check`, raise SystemExit with the pages that differ instead."""
    pages = {ROOT / page: (ROOT / page).read_text() for page in PAGES}
    # Every table is computed before the first page is written, so that an error leaves all pages as they were.
    stale = {path: rewritten(text) for path, text in pages.items() if rewritten(text) != text}
    if check and stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        raise SystemExit(f"The tables of {names} are out of date. Run: python -m dev.doc_tables")
    for path, text in stale.items():
        path.write_text(text)


if __name__ == "__main__":
    main(check=sys.argv[1:] == ["--check"])
