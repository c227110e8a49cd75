"""Proofs against the shop's own search and reward: every goal is reachable and worth full reward."""

from itertools import islice

import numpy as np
import pytest
from numpy.typing import NDArray

from dev.webshop_catalogue.__main__ import main
from dev.webshop_catalogue.prove import Buyer, Proof, best_reward, prove, summary
from dev.webshop_catalogue.ranking import Ranking
from mage_envs.games.webshop.catalogue_maker.make import SPLITS, certificates
from mage_envs.games.webshop.session import Session
from mage_envs.games.webshop.shop import Shop
from mage_envs.games.webshop.sources import shop_for
from tests.games.webshop.maker.catalogues import catalogue


@pytest.fixture(scope="module")
def shop():
    return shop_for("train", "small", None, None, 0)


@pytest.fixture(scope="module")
def proofs(shop):
    """A proof for every seventh goal of each split of the default catalogue."""
    return [
        proof
        for split in SPLITS
        if split != "ood_catalogue"
        for proof in prove(shop, islice(shop.goals(split), 0, None, 7))
    ]


def test_all_goals_of_the_tiny_catalogue_are_proven():
    tiny = shop_for("train", "tiny", None, None, 0)
    for split in SPLITS[:-1]:
        assert all(proof.holds for proof in prove(tiny, tiny.goals(split)))


def test_goals_are_reachable_with_full_reward(proofs):
    assert len(proofs) > 280
    assert [proof for proof in proofs if not proof.holds] == []


def test_words_of_the_goal_lead_to_full_reward(proofs):
    assert summary(proofs).by_words > 0.99


def test_near_misses_surround_the_target(proofs):
    assert summary(proofs).near_missed > 0.95


def test_the_first_page_is_often_not_enough(proofs):
    assert 0.25 < summary(proofs).beyond_first_page < 0.49


def successes(shop: Shop, split: str, places: int, sample: int) -> NDArray[np.float64]:
    """Return the share of goals that each of the first affordable results satisfies with the wanted options."""
    buyer, wins = Buyer(shop), np.zeros(places)
    numbers = shop.numbers(split)
    sampled_numbers = numbers[:: max(1, len(numbers) // sample)]
    for goal in map(shop.goal_at, map(int, sampled_numbers)):
        query = goal.instruction.partition(", and price")[0].lower()
        hits = (hit for hit in shop.search(query) if shop.catalogue.product(hit).low <= goal.price_upper)
        right = [buyer.is_satisfied(hit, goal) for hit in islice(hits, places)]
        wins[: len(right)] += right
    return wins / len(sampled_numbers)


@pytest.mark.more
@pytest.mark.parametrize("split", SPLITS)
def test_success_falls_with_the_place_that_is_bought(split):
    """The goals do not depend on the ranks of their products, so a rank gives nothing away."""
    shops = [shop_for(split, "small", catalogue=seed) for seed in range(5)]
    first_rate, second_rate, third_rate, fourth_rate, *later_rates = np.mean(
        [successes(shop, split, 8, 100) for shop in shops], axis=0
    )
    assert first_rate > second_rate + 0.1
    assert second_rate > (third_rate + fourth_rate) / 2 + 0.03
    assert (third_rate + fourth_rate) / 2 > np.mean(later_rates) + 0.03


def test_the_held_out_catalogue_is_proven_too():
    shop = shop_for("ood_catalogue", "tiny", None, None, 0)
    assert all(proof.holds for proof in prove(shop, shop.goals("ood_catalogue")))


def test_the_shop_states_the_made_goals(shop):
    made_goals = {goal.id: goal for goal in catalogue("small", 0).goals}
    for split in ("train", "ood_phrase"):
        for goal in islice(shop.goals(split), 50):
            made_goal = made_goals[goal.id]
            assert (goal.instruction, goal.attributes) == (made_goal.text, made_goal.attributes)
            assert (goal.price_upper, goal.split) == (made_goal.price_upper, made_goal.split)


def test_a_scripted_buyer_earns_what_is_proven(shop, proofs):
    """The same purchase by search and clicks alone."""
    num_played = 0
    for proof in proofs[::10]:
        goal = shop.goal(proof.goal_id)
        session = Session(shop, goal)
        session.play(f"search[{proof.query}]")
        position = shop.search(proof.query).index(shop.catalogue.find(goal.asin))
        for _ in range(position // 10):
            session.play("click[next >]")
        session.play(f"click[{goal.asin}]")
        for option in goal.options:
            session.play(f"click[{option}]")
        session.play("click[buy now]")
        assert session.score is not None
        assert session.score.total == 1.0
        num_played += 1
    assert num_played > 20


def test_a_family_misses_as_counted(shop):
    """The counts that goals carry agree with the shop's reward."""
    made_catalogue = catalogue("small", 0)
    families = {}
    for goal in made_catalogue.goals:
        families.setdefault(goal.family, {}).setdefault(goal.asin, []).append(goal)
    checked = agreed = 0
    for family in list(families.values())[::9]:
        products = [shop.catalogue.product(shop.catalogue.find(asin)) for asin in family]
        for goal in (goal for goals in family.values() for goal in goals):
            rewards = [best_reward(shop, product, shop.goal(goal.id)) for product in products]
            checked += 1
            agreed += sum(reward == 1.0 for reward in rewards) == goal.alternatives + 1
    assert agreed > 0.97 * checked > 100


def test_a_summary_needs_proofs():
    with pytest.raises(ValueError, match="list of proofs is empty"):
        summary([])


def test_a_goal_that_no_query_finds_does_not_hold():
    assert not Proof(
        goal_id="x", split="train", reward=1.0, rank=0, query="", by_words=False, near_misses=9, alternatives=0
    ).holds
    assert not Proof(
        goal_id="x", split="train", reward=0.75, rank=1, query="shoes", by_words=True, near_misses=9, alternatives=0
    ).holds


def test_a_buyer_remembers_what_is_true(shop):
    """Targets, their results, and products of another kind; also goals that no product meets."""
    buyer = Buyer(shop)
    rewards = set()
    for goal in islice(shop.goals("train"), 0, None, 40):
        for variant in (goal, goal._replace(price_upper=5.0), goal._replace(options=("xyzzy", *goal.options))):
            for position in {*shop.search(goal.instruction)[::5], shop.catalogue.find(goal.asin), 7}:
                reward = best_reward(shop, shop.catalogue.product(position), variant)
                assert buyer.reward(position, variant) == reward
                assert buyer.is_satisfied(position, variant) == (reward == 1.0)
                rewards.add(reward)
    assert len(rewards) > 10


def test_the_command_proves_all_and_reports_each_split(capsys):
    assert main(["--size", "tiny", "--goals", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("all 200 goals proven, all products found in ") for line in lines) == 2
    assert [line.split()[0] for line in lines[-6:]] == list(SPLITS)
    assert all("100.0%" in line for line in lines[-6:])


def test_the_command_proves_further_seeds(capsys):
    assert main(["--size", "tiny", "--seeds", "2", "--goals", "5"]) == 1  # one is recorded
    output = capsys.readouterr().out
    assert output.count("all 400 goals proven") == 2
    assert all(output.count(f'    "{certificates("tiny", held_out)[0]}",') == 1 for held_out in (False, True))


def test_the_command_fails_where_a_goal_is_not_proven(capsys, monkeypatch):
    monkeypatch.setattr(Ranking, "search", lambda self, query, k: ())
    assert main(["--size", "tiny"]) == 1
    assert "not proven: Product " in capsys.readouterr().out


@pytest.mark.parametrize("recorded", [("1.1-0",), ()], ids=["outdated", "none, as for xl"])
def test_the_command_prints_certificates_that_are_not_recorded(capsys, monkeypatch, recorded):
    monkeypatch.setattr("dev.webshop_catalogue.__main__.certificates", lambda size, held_out: recorded)
    assert main(["--size", "tiny", "--goals", "1"]) == 1
    output = capsys.readouterr().out
    assert output.count("the certificates differ from those in certificates.toml") == 2
    assert all(output.count(f'    "{certificates("tiny", held_out)[0]}",') == 1 for held_out in (False, True))


@pytest.mark.slow
def test_all_goals_of_the_large_catalogues_are_proven(capsys):
    assert main(["--size", "large", "--goals", "50"]) == 0
    assert capsys.readouterr().out.count("all 200000 goals proven") == 2
