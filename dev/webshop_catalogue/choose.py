"""Selection of a catalogue's goals with the shop's own search.

    python -m dev.webshop_catalogue.choose --size small

Each goal is drawn again until three conditions hold: the shop can prove it (`prove`), its instruction finds at least
five near misses, and its target has a wanted place among the results. Buying the first result should rarely succeed,
and the target should often be on a later page. The choices are stored with the generator, because the selection takes a
minute per 8,000 goals.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dev.webshop_catalogue.guarantee import built
from dev.webshop_catalogue.prove import Buyer, Proof, proof_of
from dev.webshop_catalogue.ranking import Ranking
from mage_envs.files.atomic import write_atomically
from mage_envs.games.webshop import catalogue_maker
from mage_envs.games.webshop.catalogue_maker.choices import Choice, name, read
from mage_envs.games.webshop.catalogue_maker.goals import PER_PRODUCT, CatalogueGoal, candidate
from mage_envs.games.webshop.catalogue_maker.make import SIZES, TYPOS, FamilyRecord, goal_draws, stream
from mage_envs.games.webshop.embedded import stored
from mage_envs.games.webshop.goals import KINDS, Goal
from mage_envs.games.webshop.search.index import Index
from mage_envs.games.webshop.shop import HITS, Shop

CHOSEN = Path(catalogue_maker.__file__).parent / "chosen"
"""Folder of the shipped choices."""
FIRST, PAGE, BEYOND = "first", "page", "beyond"
SHARES = {FIRST: 0.16, PAGE: 0.42, BEYOND: 0.42}
"""Wanted shares of a split's goals. `first`: the first result for the instruction has full reward. Otherwise `page`:
the target is on the first page of results, and `beyond`: it is on a later page or on none."""
NEAR_MISSES = 5
"""Minimum number of near misses of a goal."""
MAX_TRIES = 256
"""Maximum number of candidates per goal."""
TWINS = {"main": False, "held-out": True}
_KEPT_SEARCHES = 256
_SAVED = 1000
"""Number of goals between two saves of the command."""
USUAL_PATIENCE, PATIENCE = 32, {"large": 16}
"""Number of candidates after which a goal may have any place among the results, and exceptions by size."""


def choose(
    size: str | int, seed: int = 0, *, held_out: bool = False, typos: float = TYPOS, known: Iterable[Choice] = ()
) -> Iterator[Choice]:
    """Yield the choice for each goal of a catalogue, in order.

    Args:
        size: Size of the catalogue.
        seed: Seed of the catalogue.
        held_out: If True, the held-out catalogue.
        typos: Probability of a typing error in an instruction.
        known: Choices for the first goals, which are not selected again.

    Raises:
        RuntimeError: If no candidate for a goal can be proven.
    """
    # The products do not depend on the choices, so a temporary catalogue without choices is enough for the search.
    with tempfile.TemporaryDirectory() as folder:
        families = partial(stream, size, seed, held_out=held_out, typos=typos)
        shop = Shop(built(families(), Path(folder)), "made")
        chooser = _Chooser(
            shop=shop,
            seed=seed,
            held_out=held_out,
            typos=typos,
            patience=PATIENCE.get(str(size), USUAL_PATIENCE),
            known=known,
        )
        for family in families():
            yield from chooser.of_family(family)


class _Candidate(NamedTuple):
    """A candidate for a goal."""

    number: int
    made: CatalogueGoal
    goal: Goal
    band: str


class _Chooser:
    """Selector of goals that keeps the shares of each split close to `SHARES`."""

    def __init__(
        self, shop: Shop, seed: int, held_out: bool, typos: float, patience: int, known: Iterable[Choice]
    ) -> None:
        self._shop, self._seed, self._held_out, self._typos = shop, seed, held_out, typos
        self._patience, self._known = patience, iter(known)
        self._buyer = Buyer(shop)
        ranking = Ranking(Index.open(shop.catalogue.folder / "index"))
        self._search = lru_cache(_KEPT_SEARCHES)(lambda query: ranking.search(query, HITS))
        self._had: dict[str, Counter[str]] = {}

    def of_family(self, family: FamilyRecord) -> Iterator[Choice]:
        had = self._had.setdefault(family.split, Counter())
        for place in range(len(family.members)):
            other: CatalogueGoal | None = None
            for order in range(PER_PRODUCT):
                draw = partial(self._candidate, family, place, PER_PRODUCT * place + order, other)
                choice = next(self._known, None)
                if choice is None:
                    taken, proof = self._taken(draw, had)
                    choice = Choice(taken.number, proof.standing)
                else:
                    taken = draw(choice.candidate)
                had[taken.band] += 1
                other = taken.made
                yield choice

    def _taken(self, draw: Callable[[int], _Candidate], had: Counter[str]) -> tuple[_Candidate, Proof]:
        """Return the first proven candidate with the most wanted place, or after some patience any proven one."""
        # The place that is furthest below its share comes first. Its goals keep the shares balanced.
        wanted = sorted(SHARES, key=lambda band: had[band] - SHARES[band] * had.total())
        left: dict[str, list[_Candidate]] = {}
        for number in range(MAX_TRIES):
            drawn = draw(number)
            # A proof costs more than a draw, so candidates of other bands are proven only when patience is exhausted.
            left.setdefault(drawn.band, []).append(drawn)
            for band in wanted if number + 1 >= self._patience else wanted[:1]:
                for one in left.pop(band, ()):
                    if (proof := self._proven(one.goal)) is not None:
                        return one, proof
        raise RuntimeError(f"None of {MAX_TRIES} candidates for a goal of {drawn.goal.query!r} can be proven.")

    def _candidate(
        self, family: FamilyRecord, place: int, order: int, other: CatalogueGoal | None, number: int
    ) -> _Candidate:
        draws = goal_draws(self._seed, self._held_out, family.number, order, number)
        made = candidate(draws, family.number, family.split, family.members, family.listings, self._typos, place, other)
        target = self._shop.catalogue.find(made.asin)
        assert target is not None
        product = self._shop.catalogue.product(target)._replace(made=(stored(made),))
        goal = KINDS["made"].make(product, 0, 0)
        return _Candidate(number, made, goal, self._band(target, goal))

    def _band(self, target: int, goal: Goal) -> str:
        results = self._search(goal.instruction)
        if results and self._buyer.is_satisfied(results[0], goal):
            return FIRST
        return PAGE if target in results[:10] else BEYOND

    def _proven(self, goal: Goal) -> Proof | None:
        proof = proof_of(self._shop, goal, self._buyer, self._search)
        return proof if proof.holds and proof.near_misses >= NEAR_MISSES else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files of a size. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="choose", description="Chooses the goals of a catalogue and its held-out twin."
    )
    parser.add_argument("--size", choices=tuple(SIZES), required=True)
    parser.add_argument("--only", choices=tuple(TWINS), help="Catalogue to process (default: both)")
    parser.add_argument("--folder", type=Path, default=CHOSEN, help="Folder for the files")
    wanted = parser.parse_args(arguments)
    wanted.folder.mkdir(exist_ok=True)
    for twin in (wanted.only,) if wanted.only else TWINS:
        path = wanted.folder / name(wanted.size, TWINS[twin])
        _write_all(wanted.size, TWINS[twin], path)
        sys.stdout.write(f"{path}: {path.stat().st_size} bytes\n")
    return 0


def _write_all(size: str, held_out: bool, path: Path) -> None:
    """Write a file. An interrupted command resumes from the unfinished file beside it."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    known = read(unfinished.read_bytes()) if unfinished.is_file() else []
    choices: list[Choice] = []
    for choice in choose(size, held_out=held_out, known=known):
        choices.append(choice)
        if len(choices) % _SAVED == 0 and len(choices) > len(known):
            write(unfinished, choices)
            sys.stderr.write(f"\r{path.name}: {len(choices)} of {PER_PRODUCT * SIZES[size]} goals")
    write(path, choices)
    unfinished.unlink(missing_ok=True)


def write(path: Path, choices: Iterable[Choice]) -> None:
    """Write choices to a file atomically."""
    # Values are capped at 255 to fit a byte. Columns compress better than rows, because their bytes are similar.
    rows = [(choice.candidate, *(choice.standing or ())) for choice in choices]
    write_atomically(path, zlib.compress(np.minimum(rows, 255).astype(np.uint8).T.tobytes(), 9))


if __name__ == "__main__":
    sys.exit(main())
