"""Command `python -m mage_envs.games.webshop.site`, which serves WebShop to the browsers of this machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mage_commands import OneLineParser
from mage_envs.cli.commands import describe_error
from mage_envs.cli.progress import shown
from mage_envs.games.webshop.cache import DamagedCache
from mage_envs.games.webshop.site.command import add_options, serve


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0 after Ctrl-C, or 2 after an error (one line on stderr)."""
    about = "WebShop for a browser on this machine."
    parser = OneLineParser(prog="python -m mage_envs.games.webshop.site", description=about)
    add_options(parser)
    try:
        with shown():
            serve(parser.parse_args(arguments))
    except KeyboardInterrupt:
        print()
    except (ValueError, OSError, ImportError, DamagedCache) as error:
        print(f"webshop: {' '.join(describe_error(error).split())}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
