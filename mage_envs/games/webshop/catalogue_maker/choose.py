"""Chooses the goals of a catalogue with the shop's own search.

    python -m mage_envs.games.webshop.catalogue_maker.choose --size small

Each goal is drawn again until the shop can prove it (`prove`), its instruction finds at least five near misses, and it
stands where it is wanted: whoever buys the first result shall seldom be right, and the target often be on a later page.
What was chosen is written beside this module; the generator reads it, since choosing takes a minute per 4,000 goals.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from mage_envs.games.webshop.cache import cached
from mage_envs.games.webshop.catalogue_maker.choices import Choice, write
from mage_envs.games.webshop.catalogue_maker.goals import PER_PRODUCT, CatalogueGoal, candidate
from mage_envs.games.webshop.catalogue_maker.make import SIZES, TYPOS, FamilyRecord, goal_draws, stream
from mage_envs.games.webshop.catalogue_maker.prove import Proof, best_reward, proof_of
from mage_envs.games.webshop.embedded import products_of, stored
from mage_envs.games.webshop.goals import KINDS, Goal
from mage_envs.games.webshop.shop import Shop
from mage_envs.games.webshop.store import Catalogue, write_catalogue

FIRST, PAGE, BEYOND = "first", "page", "beyond"
SHARES = {FIRST: 0.16, PAGE: 0.42, BEYOND: 0.42}
"""How often, of the goals of a split, the first result for the instruction has full reward, and how often, where it has
not, the target is on the first page and on a later one or on none."""
NEAR_MISSES = 5
MOST = 32
"""Candidates for a goal that are looked at."""


def choose(size: str | int, seed: int = 0, *, held_out: bool = False, typos: float = TYPOS) -> list[Choice]:
    """The choice for each goal of a catalogue, in their order. Raises RuntimeError for a goal that cannot be proven."""
    with tempfile.TemporaryDirectory() as folder:
        families = partial(stream, size, seed, held_out=held_out, typos=typos)
        built = cached("unchosen", lambda draft: write_catalogue(draft, products_of(families())), Path(folder))
        shop = Shop(Catalogue(built), "made")
        chooser = _Chooser(shop, seed, held_out, typos)
        return [choice for family in families() for choice in chooser.of_family(family)]


class _Chooser:
    """Chooses goals one after the other and keeps the shares of each split near those that are wanted."""

    def __init__(self, shop: Shop, seed: int, held_out: bool, typos: float) -> None:
        self._shop, self._seed, self._held_out, self._typos = shop, seed, held_out, typos
        self._had: dict[str, Counter[str]] = {}

    def of_family(self, family: FamilyRecord) -> Iterator[Choice]:
        for place in range(len(family.members)):
            other: CatalogueGoal | None = None
            for order in range(PER_PRODUCT):
                number = PER_PRODUCT * place + order
                taken, other, proof = self._chosen(family, place, number, other)
                yield Choice(taken, proof.standing)

    def _chosen(
        self, family: FamilyRecord, place: int, number: int, other: CatalogueGoal | None
    ) -> tuple[int, CatalogueGoal, Proof]:
        """The candidate's number, the goal and its proof."""
        had = self._had.setdefault(family.split, Counter())
        wanted = sorted(SHARES, key=lambda band: had[band] - SHARES[band] * had.total())
        left: dict[str, list[tuple[int, CatalogueGoal]]] = {}
        for taken in range(MOST):
            draws = goal_draws(self._seed, self._held_out, family.number, number, taken)
            made = candidate(
                draws, family.number, family.split, family.members, family.listings, self._typos, place, other
            )
            band = self._band(self._goal(made))
            if band == wanted[0] and (proof := self._proven(made)) is not None:
                had[band] += 1
                return taken, made, proof
            left.setdefault(band, []).append((taken, made))
        for band in wanted[1:]:
            for taken, made in left.get(band, ()):
                if (proof := self._proven(made)) is not None:
                    had[band] += 1
                    return taken, made, proof
        raise RuntimeError(
            f"None of {MOST} candidates for a goal of {family.members[place].kind.name!r} can be proven."
        )

    def _goal(self, made: CatalogueGoal) -> Goal:
        position = self._shop.catalogue.find(made.asin)
        assert position is not None
        product = self._shop.catalogue.product(position)._replace(made=(stored(made),))
        return KINDS["made"].make(product, 0, 0)

    def _band(self, goal: Goal) -> str:
        shop = self._shop
        results = shop.search(goal.instruction)
        if results and best_reward(shop, shop.catalogue.product(results[0]), goal) == 1.0:
            return FIRST
        return PAGE if shop.catalogue.find(goal.asin) in results[:10] else BEYOND

    def _proven(self, made: CatalogueGoal) -> Proof | None:
        proof = proof_of(self._shop, self._goal(made))
        return proof if proof.holds and proof.near_misses >= NEAR_MISSES else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the files of a size."""
    parser = argparse.ArgumentParser(
        prog="choose", description="Chooses the goals of a catalogue and its held-out twin."
    )
    parser.add_argument("--size", choices=tuple(SIZES), required=True)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "chosen", help="where to")
    wanted = parser.parse_args(arguments)
    wanted.folder.mkdir(exist_ok=True)
    for held_out in (False, True):
        path = write(wanted.folder, wanted.size, held_out, choose(wanted.size, held_out=held_out))
        sys.stdout.write(f"{path}: {path.stat().st_size} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
