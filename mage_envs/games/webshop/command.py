"""The commands `import`, `verify`, `show` and `titles`, which convert, check and describe catalogues."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mage_commands import OneLineParser
from mage_envs.cli.commands import describe_error
from mage_envs.cli.progress import shown
from mage_envs.games.webshop.cache import DamagedCache, read_manifest, verify
from mage_envs.games.webshop.catalogue_maker import SIZES as MADE
from mage_envs.games.webshop.embedded import embedded
from mage_envs.games.webshop.official import SIZES, import_official
from mage_envs.games.webshop.search.nouns import spacy_nouns
from mage_envs.games.webshop.shop import Shop, open_shop
from mage_envs.games.webshop.title_check import compare_taggers


def add_commands(parser: argparse.ArgumentParser) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    """Add the commands to a parser. Returns the group of commands, so that the caller can add more."""
    commands = parser.add_subparsers(dest="webshop_command", required=True, metavar="COMMAND")
    about = "Convert a folder with the original's files"
    one = commands.add_parser("import", help=about, description=about)
    one.add_argument("folder", metavar="DIR", help="Folder with items_shuffle_1000.json and the other files")
    one.add_argument(
        "--size", choices=tuple(SIZES), default="small", help="Size of the data (default: small, 1,000 products)"
    )
    one.add_argument("--products", type=int, metavar="N", help="Number of entries to convert (default: all)")
    one.add_argument(
        "--cache", metavar="DIR", help="Folder for the result (default: $MAGE_ENVS_CACHE, else ~/.cache/mage-envs)"
    )
    about = "Compare a converted folder with its checksums"
    other = commands.add_parser("verify", help=about, description=about)
    other.add_argument("folder", metavar="DIR", help="Folder that `import` printed")
    about = "Print the number of products and goals, and the fingerprint to record with results"
    _add_catalogue(commands.add_parser("show", help=about, description=about))
    about = "Count the purchases that score differently with spaCy's tagger than with the built-in one"
    fourth = commands.add_parser("titles", help=about, description=about)
    _add_catalogue(fourth)
    fourth.add_argument("--purchases", type=int, default=2000, metavar="N", help="Number of purchases (default: 2000)")
    return commands


def _add_catalogue(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", metavar="DIR", nargs="?", help="Folder that `import` printed (default: the built-in catalogue)"
    )
    parser.add_argument(
        "--size", choices=tuple(MADE), default="small", help="Size of the built-in catalogue (default: small)"
    )


def run(given: argparse.Namespace) -> None:
    """Run the command that `add_commands` parsed. Raises ValueError, OSError, ImportError or DamagedCache."""
    _COMMANDS[given.webshop_command](given)


def _verify(given: argparse.Namespace) -> None:
    verify(Path(given.folder))
    print(f"{given.folder}: all files match their checksums.")


def _shops(given: argparse.Namespace) -> list[Shop]:
    """Return one shop for each kind of goals that the catalogue has."""
    folder = embedded(given.size, "train") if given.folder is None else Path(given.folder)
    kinds = [kind for kind, counts in read_manifest(folder)["goals"].items() if counts]
    return [open_shop(folder, kind, 0) for kind in kinds]


def _show(given: argparse.Namespace) -> None:
    for shop in _shops(given):
        splits = ", ".join(f"{split} {count}" for split, count in shop.splits.items())
        print(
            f"{len(shop.catalogue)} products, {len(shop)} {shop.kind} goals ({splits}), fingerprint {shop.fingerprint}"
        )


def _titles(given: argparse.Namespace) -> None:
    tagger = spacy_nouns()
    for shop in _shops(given):
        found = compare_taggers(shop, tagger, given.purchases)
        print(
            f"{shop.kind} goals: {found.differing} of {found.purchases} purchases score differently, "
            f"with a highest score of {found.highest:.3f}"
        )


def _import(given: argparse.Namespace) -> None:
    built = import_official(given.folder, given.size, given.cache, given.products)
    about = read_manifest(built)
    goals = ", ".join(f"{sum(counts.values())} {kind}" for kind, counts in about["goals"].items() if counts)
    print(f"{built}: {about['products']} products; goals: {goals or 'none'}.")


_COMMANDS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "import": _import,
    "verify": _verify,
    "show": _show,
    "titles": _titles,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0, or 2 after an error (one line on stderr)."""
    parser = OneLineParser(prog="python -m mage_envs.games.webshop", description="WebShop's data files.")
    add_commands(parser)
    try:
        with shown():
            run(parser.parse_args(arguments))
    except (ValueError, OSError, ImportError, DamagedCache) as error:
        # Messages of other packages may have several lines; a command prints one.
        print(f"webshop: {' '.join(describe_error(error).split())}", file=sys.stderr)
        return 2
    return 0
