"""`mage-sweep FILE --seeds 3`: train presets with overrides and several seeds, and print one table."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    # Before the imports below, so that Ctrl-C ends the command in one line from here on. The command imports this file
    # again, as a module.
    import mage_commands

    sys.exit(mage_commands.sweep())

from collections.abc import Sequence
from pathlib import Path

from benchmarks.executors import add_option
from benchmarks.sweeps.plan import EXAMPLE, read_plan
from benchmarks.sweeps.sweep import swept
from mage_commands import OneLineParser
from mage_envs.cli import progress
from mage_envs.cli.commands import describe_error
from mage_envs.files.atomic import output_path
from mage_envs.loading import imports
from mage_envs.text.visible import one_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 0, or 2 after an error (one line on stderr), or 130 after Ctrl-C."""
    # The help text is this module's docstring after the colon.
    parser = OneLineParser(prog="mage-sweep", description=(__doc__ or "").partition(":")[2].strip())
    parser.add_argument("file", type=Path, metavar="FILE", help=f"YAML file, such as {EXAMPLE}".replace("%", "%%"))
    parser.add_argument(
        "--seeds",
        type=int,
        default=3,
        metavar="N",
        help="number of seeds, one training per setting and seed (default: 3)",
    )
    parser.add_argument(
        "--out", type=output_path, metavar="FOLDER", help="folder of the runs (default: runs/NAME for NAME.yaml)"
    )
    add_option(parser)
    parser.add_argument(
        imports.OPTION, dest="imports", action="append", default=[], metavar="MODULE", help=imports.HELP
    )
    chosen = parser.parse_args(arguments)
    out: Path = chosen.out or output_path(f"runs/{chosen.file.stem}")
    try:
        imports.search_current_folder()
        imports.load_modules(chosen.imports)
        with progress.shown():
            text = swept(chosen.file.stem, read_plan(chosen.file, chosen.seeds), out, chosen.executor)
    except KeyboardInterrupt:
        sys.stderr.write("\nmage-sweep: interrupted; run the same command to resume.\n")
        return 130
    except (ValueError, LookupError, OSError, ImportError, RuntimeError) as error:
        sys.stderr.write(f"mage-sweep: {one_line(describe_error(error))}\n")
        return 2
    sys.stdout.write(text)
    return 0
