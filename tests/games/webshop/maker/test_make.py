"""Catalogues: their sizes, splits and goals, and that a seed gives the same bytes everywhere.

`python -m tests.games.webshop.maker.test_make` prints the golden hashes of the current version.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from hashlib import sha256
from itertools import islice

import pytest

from mage_envs.games.webshop.catalogue_maker.make import SIZES, SPLITS, VERSION, family_of, goal_ids, seed_of, stream
from mage_envs.games.webshop.catalogue_maker.tables import product_types
from mage_envs.games.webshop.products import UNLIMITED
from tests.games.webshop.maker.catalogues import catalogue, make

GOLDEN = {
    (4, "tiny", 0, False): "6c695df61c765f06",
    (4, "tiny", 7, True): "e283b553697a604d",
    (4, "small", 0, False): "8963e0331d364dfb",
    (4, "medium", 0, False): "9e2248012601c2f2",
}
"""(version, size, seed, held out) to the hash of everything that is made."""


STARTS = {
    (4, "large", False): "4f29ba01e9ccc4f5",
    (4, "xl", False): "4f29ba01e9ccc4f5",
    (4, "xl", True): "bf50b169eee52f68",
}
"""(version, size, held out) to the hash of the first families of seed 0 and all that belongs to them."""


def digest_of_start(size, held_out):
    families = islice(stream(size, held_out=held_out), 60)
    start_content = [[family.listings, [goal._asdict() for goal in family.goals]] for family in families]
    return sha256(json.dumps(start_content, sort_keys=True, ensure_ascii=True).encode()).hexdigest()[:16]


def digest(size, seed, held_out=False):
    made_catalogue = make(size, seed, held_out=held_out)
    content = [made_catalogue.products, made_catalogue.attributes, [goal._asdict() for goal in made_catalogue.goals]]
    return sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode()).hexdigest()[:16]


@pytest.fixture(scope="module")
def small():
    return catalogue()


@pytest.mark.parametrize("key", [key for key in GOLDEN if key[1] != "medium"])
def test_a_made_catalogue_never_changes(key):
    assert digest(*key[1:]) == GOLDEN[key], "a new word or draw needs a new VERSION and new hashes"


@pytest.mark.slow
@pytest.mark.parametrize("key", [key for key in GOLDEN if key[1] == "medium"])
def test_a_medium_catalogue_never_changes(key):
    assert digest(*key[1:]) == GOLDEN[key]


@pytest.mark.parametrize("key", list(STARTS))
def test_the_start_of_a_big_catalogue_never_changes(key):
    assert digest_of_start(*key[1:]) == STARTS[key]


def test_golden_hashes_are_of_this_version():
    assert {key[0] for key in (*GOLDEN, *STARTS)} == {VERSION}
    assert {key[1] for key in GOLDEN} == {"tiny", "small", "medium"}


@pytest.mark.parametrize("hash_seed", ["1", "77"])
def test_another_process_makes_the_same(hash_seed):
    script = "from tests.games.webshop.maker.test_make import digest; print(digest('tiny', 9))"
    process = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )
    assert process.stdout.strip() == digest("tiny", 9)


@pytest.mark.parametrize(("size", "products"), [("tiny", 100), ("small", 1000), (7, 7), (14, 14), (15, 15), (333, 333)])
def test_sizes_are_exact(size, products):
    made_catalogue = make(size, 4)
    assert len(made_catalogue.products) == len(made_catalogue.attributes) == products
    assert len(made_catalogue.goals) == 2 * products


def test_sizes_are_those_of_the_docs():
    assert SIZES == {"tiny": 100, "small": 1_000, "medium": 10_000, "large": 100_000, "xl": 1_000_000}


@pytest.mark.parametrize("size", ["huge", "Small", 6, 0, -1])
def test_unknown_sizes_are_refused(size):
    with pytest.raises(ValueError, match=r"Unknown catalogue size|must have at least 7 products"):
        make(size)


def test_any_size_is_made_as_it_is_read():
    first_families = list(islice(stream("xl", 0), 40))
    assert sum(len(family.members) for family in first_families) > 280
    small_families = list(islice(stream("small", 0), 40))
    assert [family.goals for family in first_families] == [family.goals for family in small_families], (
        "small is a start of xl"
    )


def test_asins_are_unique_and_look_like_asins(small):
    asins = [raw["asin"] for raw in small.products]
    assert len(set(asins)) == len(asins)
    assert all(len(asin) == 10 and asin.isalnum() and asin.isupper() for asin in asins)
    held_out_asins = {raw["asin"] for raw in make("small", held_out=True).products}
    assert not held_out_asins & set(asins)


def test_seeds_and_the_held_out_catalogue_differ(small):
    titles = {raw["name"] for raw in small.products}
    assert len(titles & {raw["name"] for raw in make("small", 1).products}) < 10
    assert len(titles & {raw["name"] for raw in make("small", held_out=True).products}) < 10


def test_two_goals_of_a_product_differ(small):
    goals_by_asin = {}
    for goal in small.goals:
        goals_by_asin.setdefault(goal.asin, []).append((sorted(goal.attributes), goal.options))
    assert all(len(pair) == 2 and pair[0] != pair[1] for pair in goals_by_asin.values())
    assert len({goal.id for goal in small.goals}) == len(small.goals)


@pytest.mark.parametrize("size", ["tiny", "small"])
def test_every_split_has_goals(size):
    counts = Counter(goal.split for goal in make(size).goals)
    assert set(counts) == set(SPLITS) - {"ood_catalogue"}
    total = sum(counts.values())
    assert 0.5 < counts["train"] / total < 0.7
    assert all(counts[split] / total > 0.04 for split in counts)


@pytest.mark.parametrize("size", ["tiny", "small", 77])
@pytest.mark.parametrize("seed", [0, 5])
def test_ids_are_known_beforehand(size, seed):
    for held_out in (False, True):
        goals = make(size, seed, held_out=held_out).goals
        for split in {goal.split for goal in goals}:
            ids = [goal.id for goal in goals if goal.split == split]
            assert list(goal_ids(split, size=size, seed=seed)) == ids
            five_ids = goal_ids(split, 5, size=size, seed=seed)
            assert len(set(five_ids)) == 5
            assert set(five_ids) <= set(ids)


@pytest.mark.parametrize(("split", "count"), [("dev", None), ("val", 0), ("val", 10_000)])
def test_ids_that_there_are_not(split, count):
    with pytest.raises(ValueError, match=f"split='{split}' of size 'small' has"):
        goal_ids(split, count)


def test_splits_are_disjoint_by_family(small):
    families = {}
    for goal in small.goals:
        families.setdefault(goal.family, set()).add(goal.split)
    assert all(len(splits) == 1 for splits in families.values())


def test_held_out_types_stay_out_of_the_other_splits():
    held_out = {kind.name for kind in product_types() if kind.held_out}
    for goal in catalogue("medium", 1).goals:
        assert (goal.query in held_out) == (goal.split == "ood_type")


def test_the_held_out_catalogue_has_one_split():
    assert {goal.split for goal in make("tiny", held_out=True).goals} == {"ood_catalogue"}


def test_all_types_are_sold():
    sold = {raw["query"] for raw in catalogue("medium", 1).products}
    assert sold == {kind.name for kind in product_types()}


def test_goals_want_what_their_product_has(small):
    products = {raw["asin"]: raw for raw in small.products}
    for goal in small.goals:
        raw = products[goal.asin]
        assert set(goal.attributes) <= set(small.attributes[goal.asin]["attributes"])
        for axis, value in goal.options:
            assert value in [choice["value"] for choice in raw["customization_options"][axis]]
        prices = [float(part) for part in raw["pricing"].replace("$", "").split(" - ") if part] or [100.0]
        assert max(prices) < goal.price_upper
        assert goal.price_upper in (UNLIMITED, min(goal.price_upper, max(prices) + 40))


def test_the_family_misses_what_a_goal_wants(small):
    enough = sum(goal.near_misses >= 5 for goal in small.goals)
    assert enough > 0.94 * len(small.goals)
    assert sum(goal.alternatives == 0 for goal in small.goals) > 0.3 * len(small.goals)


def test_synthetic_stems_ask_for_what_the_product_has(small):
    for about in small.attributes.values():
        assert 1 <= len(about["instruction_attributes"]) <= 2
        assert set(about["instruction_attributes"]) <= set(about["attributes"])


@pytest.mark.parametrize(("size", "seed", "held_out"), [("tiny", 0, False), ("tiny", 3, True), (300, 2, False)])
def test_a_products_family_is_in_its_id(size: str | int, seed: int, held_out: bool) -> None:
    for family in stream(size, seed, held_out=held_out):
        asins = [listing.raw["asin"] for listing in family.listings]
        assert {family_of(asin, held_out=held_out, seed=seed) for asin in asins} == {family.number}


@pytest.mark.parametrize("held_out", [False, True])
def test_a_products_catalogue_is_in_its_id(held_out):
    split = "ood_catalogue" if held_out else "val"
    for seed in range(20):
        asins = [goal_id.partition("-")[0] for goal_id in goal_ids(split, 20, seed=seed)]
        assert {seed_of(asin, "small", held_out=held_out) for asin in asins} == {seed}
        assert {seed_of(asin, "small", held_out=not held_out) for asin in asins} == {None}
    assert seed_of("B000000001", "small", held_out=held_out) is None
    assert seed_of("x", "small", held_out=held_out) is None
    assert seed_of("B0abcdefgh", "small", held_out=held_out) is None


if __name__ == "__main__":
    for name, number, apart in (("tiny", 0, False), ("tiny", 7, True), ("small", 0, False), ("medium", 0, False)):
        sys.stdout.write(f'    ({VERSION}, "{name}", {number}, {apart}): "{digest(name, number, apart)}",\n')
    for _, name, apart in STARTS:
        sys.stdout.write(f'    ({VERSION}, "{name}", {apart}): "{digest_of_start(name, apart)}",\n')
