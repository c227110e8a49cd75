"""Proves a generated catalogue: `python -m mage_envs.games.webshop.catalogue_maker --size small --goals 2000`.

Prints, for each split, what `prove.summary` says of it; exits with 1 where a goal is not reachable with full reward.
"""

from __future__ import annotations

import argparse
import sys

from mage_envs.games.webshop.catalogue_maker.make import SIZES, SPLITS
from mage_envs.games.webshop.catalogue_maker.prove import Proof, prove, summary
from mage_envs.games.webshop.sources import shop_for


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="catalogue_maker", description="Proves the goals of a generated catalogue.")
    parser.add_argument("--size", choices=tuple(SIZES), default="small")
    parser.add_argument("--goals", type=int, default=2000, help="at most so many goals of each split, evenly spread")
    wanted = parser.parse_args(arguments)
    failed = []
    sys.stdout.write("split         goals  holding  by words  rank>10  near misses  alternatives\n")
    for split in SPLITS:
        proofs = _proofs(wanted.size, split, wanted.goals)
        told = summary(proofs)
        sys.stdout.write(
            f"{split:13} {told.goals:5}  {told.holding:7.1%}  {told.by_words:8.1%}  {told.beyond_first_page:7.1%}  "
            f"{told.near_missed:11.1%}  {told.alternatives:12.1f}\n"
        )
        failed += [proof.goal_id for proof in proofs if not proof.holds]
    if failed:
        sys.stdout.write(f"not proven: {', '.join(failed[:20])}\n")
    return 1 if failed else 0


def _proofs(size: str, split: str, most: int) -> list[Proof]:
    shop = shop_for(split, size, None, None, 0)
    numbers = shop.numbers(split)
    step = max(1, len(numbers) // most)
    return list(prove(shop, (shop.goal_at(int(number)) for number in list(numbers)[::step][:most])))


if __name__ == "__main__":
    sys.exit(main())
