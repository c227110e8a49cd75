"""Command that proves a generated catalogue.

    python -m mage_envs.games.webshop.catalogue_maker --size small --goals 2000

The command proves every goal of a size again, as at the time of generation (`guarantee`). Then it prints
`prove.summary` of a sample of the goals of each split. The exit status is 1 if a goal cannot be reached with full
reward.
"""

from __future__ import annotations

import argparse
import sys

from mage_envs.games.webshop.catalogue_maker.guarantee import Unproven, proven
from mage_envs.games.webshop.catalogue_maker.make import SIZES, SPLITS
from mage_envs.games.webshop.catalogue_maker.prove import Proof, prove, summary
from mage_envs.games.webshop.shop import Shop
from mage_envs.games.webshop.sources import shop_for


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="catalogue_maker", description="Proves the goals of a generated catalogue.")
    parser.add_argument("--size", choices=tuple(SIZES), default="small")
    parser.add_argument(
        "--goals", type=int, default=2000, help="Maximum number of goals per split, at even steps (default: 2000)"
    )
    wanted = parser.parse_args(arguments)
    shops = {split: shop_for(split, wanted.size) for split in SPLITS}
    try:
        # All splits but the last one share a catalogue, so two proofs cover everything.
        for split in (SPLITS[0], SPLITS[-1]):
            told = proven(shops[split].catalogue)
            sys.stdout.write(f"all {told.goals} goals proven, all products found in {told.searches} searches, ")
            sys.stdout.write(f"certificate {told.certificate}\n")
    except Unproven as error:
        sys.stdout.write(f"not proven: {error}\n")
        return 1
    failed = []
    sys.stdout.write("split         goals  holding  by words  rank>10  near misses  alternatives\n")
    for split in SPLITS:
        proofs = _proofs(shops[split], split, wanted.goals)
        told_of = summary(proofs)
        sys.stdout.write(
            f"{split:13} {told_of.goals:5}  {told_of.holding:7.1%}  {told_of.by_words:8.1%}  "
            f"{told_of.beyond_first_page:7.1%}  {told_of.near_missed:11.1%}  {told_of.alternatives:12.1f}\n"
        )
        failed += [proof.goal_id for proof in proofs if not proof.holds]
    if failed:
        sys.stdout.write(f"not proven: {', '.join(failed[:20])}\n")
    return 1 if failed else 0


def _proofs(shop: Shop, split: str, most: int) -> list[Proof]:
    numbers = shop.numbers(split)
    step = max(1, len(numbers) // most)
    return list(prove(shop, (shop.goal_at(int(number)) for number in list(numbers)[::step][:most])))


if __name__ == "__main__":
    sys.exit(main())
