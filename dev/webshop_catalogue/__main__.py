"""Command that proves generated catalogues.

    python -m dev.webshop_catalogue --size small --goals 2000

The command generates the catalogues of a size and proves every goal (`guarantee`). Then it prints `prove.summary` of a
sample of the goals of each split. The exit status is 1 if a goal cannot be reached with full reward, or if the
certificates are not the recorded ones.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dev.webshop_catalogue.guarantee import build_catalogue, proven
from dev.webshop_catalogue.prove import Proof, prove, summary
from mage_envs.games.webshop.catalogue_maker.make import SIZES, SPLITS, certificates, stream
from mage_envs.games.webshop.embedded import HELD_OUT, Unproven, log_progress
from mage_envs.games.webshop.shop import Shop


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="webshop_catalogue", description="Proves the goals of generated catalogues.")
    parser.add_argument("--size", choices=tuple(SIZES), default="small")
    parser.add_argument(
        "--seeds",
        type=int,
        default=0,
        help="Number of catalogues, with the seeds 0, 1 and so on (default: as recorded)",
    )
    parser.add_argument(
        "--goals", type=int, default=2000, help="Maximum number of goals per split, at even steps (default: 2000)"
    )
    options = parser.parse_args(arguments)
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        shops = {}
        for held_out in (False, True):
            try:
                shops[held_out], recorded = _prove_catalogues(options.size, held_out, options.seeds, Path(folder))
            except Unproven as error:
                sys.stdout.write(f"not proven: {error}\n")
                return 1
            if recorded != certificates(options.size, held_out):
                failed.append("the certificates differ from those in certificates.toml")
        sys.stdout.write("split         goals  holding  by words  rank>10  near misses  alternatives\n")
        for split in SPLITS:
            proofs = _proofs(shops[split == HELD_OUT], split, options.goals)
            told_of = summary(proofs)
            sys.stdout.write(
                f"{split:13} {told_of.goals:5}  {told_of.holding:7.1%}  {told_of.by_words:8.1%}  "
                f"{told_of.beyond_first_page:7.1%}  {told_of.near_missed:11.1%}  {told_of.alternatives:12.1f}\n"
            )
            failed += [proof.goal_id for proof in proofs if not proof.holds]
    if failed:
        sys.stdout.write(f"not proven: {', '.join(failed[:20])}\n")
    return 1 if failed else 0


def _prove_catalogues(size: str, held_out: bool, seeds: int, folder: Path) -> tuple[list[Shop], tuple[str, ...]]:
    """Return the proven shops and their certificates, and print the certificates. Raises Unproven."""
    shops, digests, goals, searches = [], [], 0, 0
    # A size without a certificate has one catalogue, too.
    for seed in range(seeds or max(1, len(certificates(size, held_out)))):
        catalogue = build_catalogue(
            log_progress(stream(size, seed, held_out=held_out), size), folder / f"{held_out}-{seed}"
        )
        proof = proven(catalogue)
        shops.append(Shop(catalogue, "made"))
        digests.append(proof.certificate)
        goals, searches = goals + proof.goals, searches + proof.searches
    sys.stdout.write(f"all {goals} goals proven, all products found in {searches} searches, certificates:\n")
    sys.stdout.write(f"{'held_out' if held_out else 'main'} = [\n")
    sys.stdout.write("".join(f'    "{certificate}",\n' for certificate in digests) + "]\n")
    return shops, tuple(digests)


def _proofs(shops: Sequence[Shop], split: str, limit: int) -> list[Proof]:
    """Return the proofs of at most that many goals, evenly over the shops."""
    proofs: list[Proof] = []
    goals_per_shop = -(-limit // len(shops))
    for shop in shops:
        numbers = shop.numbers(split)
        step = max(1, len(numbers) // goals_per_shop)
        proofs += prove(shop, (shop.goal_at(int(number)) for number in list(numbers)[::step][:goals_per_shop]))
    return proofs


if __name__ == "__main__":
    sys.exit(main())
