"""Splits of a game's opponents: which they are, their order, and what two of them must not share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mage_envs import list_games, settings_of
from mage_envs.opponents import as_pool
from mage_envs.opponents.splits import list_splits, register_split


def test_the_splits_are_in_the_order_of_their_seeds() -> None:
    seeds = [split.seed for split in list_splits().values()]
    assert seeds == sorted(seeds)
    assert min(seeds) == list_splits()["pd"].seed == 18


@pytest.mark.parametrize("prefix", list_splits())
def test_a_split_holds_out_opponents_and_has_the_seats_of_its_game(prefix: str) -> None:
    split = list_splits()[prefix]
    assert split.game in list_games()
    assert not set(as_pool(split.train).entries) & set(as_pool(split.heldout).entries)
    assert split.seats == ((0,) if settings_of(split.game).seat == "first" else (0, 1))


def test_two_splits_share_no_prefix_and_no_seed() -> None:
    splits_before = list_splits()
    split = splits_before["pd"]
    register_split("pd", split)
    for prefix, seed in (("pd", 90), ("mine", 17), ("mine", 18)):
        with pytest.raises(ValueError, match=rf"^Split 'pd' already .*; choose others for '{prefix}'\."):
            register_split(prefix, replace(split, seed=seed))
    assert list_splits() == splits_before
