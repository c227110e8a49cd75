"""`mage webshop`: convert, check and describe WebShop's catalogues, and serve its site."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

import mage_envs
from mage_envs.cli.commands import add_command, choice_of, read_port
from mage_envs.games.webshop.cache import read_manifest, verify
from mage_envs.games.webshop.catalogue_maker import SIZES as MADE
from mage_envs.games.webshop.embedded import embedded
from mage_envs.games.webshop.game import WebShop
from mage_envs.games.webshop.official import SIZES, import_official
from mage_envs.games.webshop.search.nouns import spacy_nouns
from mage_envs.games.webshop.shop import Shop, open_shop
from mage_envs.games.webshop.site.playing import Player
from mage_envs.games.webshop.site.server import Site
from mage_envs.games.webshop.sources import shop_for
from mage_envs.games.webshop.title_check import compare_taggers

PORT = 3000

CatalogueFolder = Annotated[
    Path | None,
    typer.Argument(metavar="DIR", help="Folder that `mage webshop import` printed (default: the built-in catalogue)"),
]
CatalogueSize = Annotated[
    str,
    typer.Option(parser=choice_of(tuple(MADE)), metavar="NAME", help="Size of the built-in catalogue (default: small)"),
]


def import_files(
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="Folder with items_shuffle_1000.json and the other files")
    ],
    size: Annotated[
        str,
        typer.Option(
            parser=choice_of(tuple(SIZES)), metavar="NAME", help="Size of the data (default: small, 1,000 products)"
        ),
    ] = "small",
    products: Annotated[
        int | None, typer.Option(metavar="N", help="Number of entries to convert (default: all)")
    ] = None,
    cache: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Folder for the result (default: $MAGE_ENVS_CACHE, else ~/.cache/mage-envs)"),
    ] = None,
) -> None:
    """Convert a folder with the original's files.

    Example: mage webshop import path/to/folder --size full
    """
    built = import_official(folder, size, cache, products)
    about = read_manifest(built)
    goals = ", ".join(f"{sum(counts.values())} {kind}" for kind, counts in about["goals"].items() if counts)
    print(f"{built}: {about['products']} products; goals: {goals or 'none'}.")


def verify_folder(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that `mage webshop import` printed")],
) -> None:
    """Compare a converted folder with its checksums.

    Example: mage webshop verify path/that/import/printed
    """
    verify(folder)
    print(f"{folder}: all files match their checksums.")


def show(folder: CatalogueFolder = None, size: CatalogueSize = "small") -> None:
    """Print the number of products and goals, and the fingerprint to record with results.

    Example: mage webshop show --size small
    """
    for shop in _shops(folder, size):
        splits = ", ".join(f"{split} {count}" for split, count in shop.splits.items())
        print(
            f"{len(shop.catalogue)} products, {len(shop)} {shop.kind} goals ({splits}), fingerprint {shop.fingerprint}"
        )


def titles(
    folder: CatalogueFolder = None,
    size: CatalogueSize = "small",
    purchases: Annotated[int, typer.Option(metavar="N", help="Number of purchases (default: 2000)")] = 2000,
) -> None:
    """Count the purchases that score differently with spaCy's tagger than with the built-in one.

    Example: mage webshop titles --purchases 500
    """
    tagger = spacy_nouns()
    for shop in _shops(folder, size):
        found = compare_taggers(shop, tagger, purchases)
        print(
            f"{shop.kind} goals: {found.differing} of {found.purchases} purchases score differently, "
            f"with a highest score of {found.highest:.3f}"
        )


def _shops(folder: Path | None, size: str) -> list[Shop]:
    """Return one shop for each kind of goals that the catalogue has."""
    folder = embedded(size, "train") if folder is None else folder
    kinds = [kind for kind, counts in read_manifest(folder)["goals"].items() if counts]
    return [open_shop(folder, kind, 0) for kind in kinds]


def serve(
    port: Annotated[
        int, typer.Option(parser=read_port, metavar="N", help=f"Port (default: {PORT}, 0 selects a free port)")
    ] = PORT,
    size: Annotated[str, typer.Option(metavar="NAME", help="Size of the catalogue (default: small)")] = "small",
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder with the original's files, or an imported folder")
    ] = None,
    goals: Annotated[
        Literal["synthetic", "human"] | None,
        typer.Option(help="Kind of goals, with --data only (default: synthetic)"),
    ] = None,
    split: Annotated[str, typer.Option(metavar="NAME", help="Split of an agent's goals (default: train)")] = "train",
    images: Annotated[bool, typer.Option(help="Load the data's pictures from their servers")] = False,
    attributes: Annotated[bool, typer.Option(help="Offer the page of a product's hidden attributes")] = False,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on (default: 127.0.0.1); requires --exposed if other machines can reach it",
        ),
    ] = "127.0.0.1",
    exposed: Annotated[bool, typer.Option(help="Allow access from other machines, without a log-in")] = False,
    names: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="HOST", help="Another host name of this machine; may be repeated"),
    ] = None,
    watch_agent: Annotated[Literal["rule", "oracle"] | None, typer.Option(help="Agent to play and to watch")] = None,
    pace: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time between the agent's actions in seconds (default: 1.5)")
    ] = 1.5,
) -> None:
    """Serve the site to the browsers of this machine, until Ctrl-C.

    Example: mage webshop serve --watch-agent oracle
    """
    if not 0 < pace <= 3600:
        raise ValueError(f"--pace must be above 0 and at most 3600 seconds, got {pace}.")
    shop = shop_for(split, size, data, goals)
    # Raises ValueError before the site opens its port, if the split has no goals.
    shop.numbers(split)
    site = Site(
        shop, host=host, port=port, exposed=exposed, names=names or [], images=images, shows_attributes=attributes
    )
    # The stack stops the agent before it closes the site.
    with ExitStack() as stack:
        stack.callback(site.close)
        print(f"WebShop is at {site.url} (Ctrl-C stops it).", flush=True)
        if watch_agent is not None:
            game = WebShop(split, size=size, data=data, goals=goals, show_score=True)
            watch = site.watch(f"{watch_agent} agent")
            print(f"Watch the {watch.title} at {watch.url}", flush=True)
            policy = mage_envs.make_opponent(f"webshop/{watch_agent}", game)
            stack.enter_context(Player(game, policy, watch, rng=np.random.default_rng(), pace=pace))
        try:
            site.serve()
        except KeyboardInterrupt:
            # Ctrl-C is the way to stop the site, not an error.
            print()


app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Convert and check WebShop's data files, or serve its site."
)
for name, function in (
    ("import", import_files),
    ("verify", verify_folder),
    ("show", show),
    ("titles", titles),
    ("serve", serve),
):
    add_command(app, name, function)
