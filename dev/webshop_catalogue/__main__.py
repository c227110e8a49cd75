"""Command that proves a generated catalogue.

    python -m dev.webshop_catalogue --size small --goals 2000

The command generates the catalogues of a size and proves every goal (`guarantee`). Then it prints `prove.summary` of a
sample of the goals of each split. The exit status is 1 if a goal cannot be reached with full reward, or if a
catalogue's certificate is not the recorded one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from dev.webshop_catalogue.guarantee import built, proven
from dev.webshop_catalogue.prove import Proof, prove, summary
from mage_envs.games.webshop.catalogue_maker import SIZES, SPLITS, certified, stream
from mage_envs.games.webshop.embedded import HELD_OUT, Unproven, counted
from mage_envs.games.webshop.shop import Shop


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="webshop_catalogue", description="Proves the goals of a generated catalogue.")
    parser.add_argument("--size", choices=tuple(SIZES), default="small")
    parser.add_argument(
        "--goals", type=int, default=2000, help="Maximum number of goals per split, at even steps (default: 2000)"
    )
    wanted = parser.parse_args(arguments)
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        shops = {}
        for held_out in (False, True):
            families = stream(wanted.size, held_out=held_out)
            catalogue = built(counted(families, wanted.size), Path(folder, str(held_out)))
            try:
                told = proven(catalogue)
            except Unproven as error:
                sys.stdout.write(f"not proven: {error}\n")
                return 1
            sys.stdout.write(f"all {told.goals} goals proven, all products found in {told.searches} searches, ")
            sys.stdout.write(f"certificate {told.certificate}\n")
            if told.certificate != certified(wanted.size, held_out):
                failed.append("the certificate differs from that in certificates.toml")
            shops[held_out] = Shop(catalogue, "made")
        sys.stdout.write("split         goals  holding  by words  rank>10  near misses  alternatives\n")
        for split in SPLITS:
            proofs = _proofs(shops[split == HELD_OUT], split, wanted.goals)
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
