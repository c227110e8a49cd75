"""The commands `import` and `verify`: convert the original's data files, and check what was converted."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mage_envs.games.webshop.cache import DamagedCache, read_manifest, verify
from mage_envs.games.webshop.official import SIZES, import_official


def add_commands(parser: argparse.ArgumentParser) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    """Adds the commands `import` and `verify` to a parser; returns where further ones go."""
    commands = parser.add_subparsers(dest="webshop_command", required=True, metavar="COMMAND")
    about = "convert a folder of the original's files, once"
    one = commands.add_parser("import", help=about, description=about)
    one.add_argument("folder", metavar="DIR", help="holds items_shuffle_1000.json and so on")
    one.add_argument("--size", choices=tuple(SIZES), default="small", help="default: small (the 1,000 products)")
    one.add_argument("--products", type=int, metavar="N", help="only the first N entries")
    one.add_argument("--cache", metavar="DIR", help="where to (default: $MAGE_ENVS_CACHE, else ~/.cache/mage-envs)")
    about = "compare a converted folder with its checksums"
    other = commands.add_parser("verify", help=about, description=about)
    other.add_argument("folder", metavar="DIR", help="what `import` named")
    return commands


def run(given: argparse.Namespace) -> None:
    """Carries out what `add_commands` parsed. Raises ValueError, OSError or DamagedCache."""
    if given.webshop_command == "verify":
        verify(Path(given.folder))
        print(f"{given.folder}: every file is as it was written.")
        return
    built = import_official(given.folder, given.size, given.cache, given.products)
    about = read_manifest(built)
    goals = ", ".join(f"{sum(counts.values())} {kind}" for kind, counts in about["goals"].items() if counts)
    print(f"{built}: {about['products']} products; goals: {goals or 'none'}.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 2 after an error (one line on stderr)."""
    parser = argparse.ArgumentParser(prog="python -m mage_envs.games.webshop", description="WebShop's data files.")
    add_commands(parser)
    try:
        run(parser.parse_args(arguments))
    except (ValueError, OSError, DamagedCache) as error:
        print(f"webshop: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0
