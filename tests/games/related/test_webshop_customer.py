"""WebShopCustomer: wishes and feedback, properties of errands, players and exact values against closed forms."""

from __future__ import annotations

from itertools import product
from math import prod

import gymnasium as gym
import numpy as np
import pytest

from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.scoring.scores import summarise
from mage_envs.benchmarks.evaluation.suites.panels import panel
from mage_envs.games.webshop.session import ITEM
from mage_envs.games.webshop_customer.errands import affordable, find_named_value, wishes_on
from mage_envs.games.webshop_customer.shopping import ErrandSession, WebShopCustomer
from mage_envs.games.webshop_customer.tastes import FIT, PACKS, TASTES, customers, ends_of, one_of, shades_of
from mage_envs.opponents.exact import headroom
from mage_envs.opponents.solo.shopper_values import CustomerSolution
from tests.contract import check_id

SIZES = [len(taste.characters) for taste in TASTES]
LARGE = (("train", "small"), ("val", "medium"), ("train", "medium"))
"""Splits and sizes of the large run."""


@pytest.fixture(scope="module")
def game() -> WebShopCustomer:
    return WebShopCustomer()


def errands_of(game: WebShopCustomer, seed: int, count: int = 3):
    return [game.errand(np.random.default_rng(seed), number) for number in range(count)]


def buy(game: WebShopCustomer, errand, fact: str, please: str) -> ErrandSession:
    """The visit that buys the errand's product with the options that please a customer."""
    goal, places = errand.goal, game.customer(please)
    session = ErrandSession(game, errand, game.customer(fact))
    shop = game.shop
    item = affordable(shop, goal) if game.easy else shop.catalogue.product(shop.catalogue.find(goal.asin))
    session.page, session.product = ITEM, item
    option_values = [find_named_value(values, goal.instruction) for values in item.options.values()]
    for value in filter(None, [*option_values, *(wish.resolved[places[wish.taste]][0] for wish in errand.wishes)]):
        assert session.click(value)
    assert session.click("buy now")
    return session


def check_errands(game: WebShopCustomer, seeds: range) -> None:
    """No task twice, nothing shown before the first answer, and every task solvable under every customer."""
    errands_by_goal = {}
    for seed in seeds:
        errands = errands_of(game, seed)
        assert len({game.shop.family(errand.goal.id) for errand in errands}) == 3
        errands_by_goal.update((errand.goal.id, errand) for errand in errands)
    for errand in errands_by_goal.values():
        states = [game.begin(errand, fact) for fact in game.kinds_of_fact]
        assert len({(state.observation(0), str(state.info(0))) for state in states}) == 1
        for fact in game.kinds_of_fact:
            session = buy(game, errand, fact, fact)
            assert session.score.total == 1.0
            # Another customer is pleased only if they agree in every wish that counts.
            other_fact = next(candidate for candidate in game.kinds_of_fact if candidate != fact)
            agree = all(game.customer(fact)[w.taste] == game.customer(other_fact)[w.taste] for w in errand.wishes)
            assert (buy(game, errand, fact, other_fact).score.total == 1.0) == agree


def errands_in(game: WebShopCustomer, seed: int) -> list[tuple[int, ...]]:
    """The tastes that count on each errand of a task."""
    env = gym.make("mage/WebShopCustomer-v0", wishes=game.wishes)
    tastes = []
    for number in range(3):
        env.reset(seed=seed, options={"episode": number})
        tastes.append(tuple(wish.taste for wish in env.unwrapped.hand.state.own.session.errand.wishes))
    return tastes


def compute_chances(tastes: list[tuple[int, ...]], sizes: list[int]) -> list[float]:
    """Success of a learner that excludes one value per purchase: min(m + 1, n) / n for the purchase after m others."""
    num_seen = [0] * len(sizes)
    chances = []
    for errand in tastes:
        chances.append(prod(min(num_seen[taste] + 1, sizes[taste]) / sizes[taste] for taste in errand))
        for taste in errand:
            num_seen[taste] += 1
    return chances


def tasks_of(game: WebShopCustomer):
    """One set of three errands in three rotations, for every customer."""
    return panel("mage/WebShopCustomer-Meta-v0", [f"customer:{fact}" for fact in game.kinds_of_fact], 3, 5, (0,), 3)


def success_rates(game: WebShopCustomer, player: str, **options) -> list[float]:
    """Success in each episode."""
    options = {"reveal_opponent": True, **options}
    overall = summarise(evaluate(make_agent(f"policy:customer/{player}"), tasks_of(game), options), game).overall
    assert not overall.failures
    return [episode.success.estimate.mean for episode in overall.episodes]


def test_tastes_are_resolved_on_a_product() -> None:
    colours = ["navy blue", "dark green", "blue | red", "rose gold", "lavender", "grey", "light pink"]
    groups = (("black", "white", "grey"), ("blue", "green"), ("red", "pink", "orange"))
    assert shades_of(*groups)(colours) == (("grey",), ("navy blue", "dark green"), ("light pink",))
    assert one_of(["8"], ["10"])(["7.5", "8", "8.5"]) == (("8",), ())
    assert ends_of(PACKS)(["six pack", "twin pack", "dozen"]) == (("twin pack",), ("dozen",))
    assert ends_of(PACKS)(["six pack", "a crate"]) == ((), ())
    assert (len(customers("taste")), list(customers("fit"))) == (
        12,
        ["small", "medium", "large", "x-large", "xx-large"],
    )
    options = {"color": colours, "size": ["medium", "large"], "item package quantity": ["single", "dozen"]}
    counted = {wish.axis: wish.taste for wish in wishes_on(options, "a shirt in Large, two packs", "taste")}
    assert counted == {"color": 1, "item package quantity": 2}
    assert find_named_value(["large", "x-large"], "size x-large please") == "x-large"


def test_the_last_page(game: WebShopCustomer) -> None:
    """The parts that are not met are exactly those, in every combination; the score counts them like options."""
    for errand in errands_of(game, 3):
        for fact, please in product(game.kinds_of_fact, repeat=2):
            session = buy(game, errand, fact, please)
            fact_wishes, please_wishes = game.customer(fact), game.customer(please)
            unmet = [wish.axis for wish in errand.wishes if fact_wishes[wish.taste] != please_wishes[wish.taste]]
            assert session.feedback() == f"The instruction is met. Wishes not met: {', '.join(unmet) or 'none'}"
            num_wanted = len(errand.goal.attributes) + len(errand.goal.options) + len(errand.wishes) + 1
            assert session.score.total == (num_wanted - len(unmet)) / num_wanted
    scored = WebShopCustomer(feedback="score")
    errand = errands_of(scored, 3)[0]
    fact, other_fact = scored.kinds_of_fact[0], scored.kinds_of_fact[-1]
    assert buy(scored, errand, fact, fact).feedback() == "Score: 1.00"
    assert buy(scored, errand, fact, other_fact).feedback() != "Score: 1.00"
    nothing = ErrandSession(game, errand, game.customer(fact))
    nothing.page, nothing.product = ITEM, affordable(game.shop, errand.goal)
    nothing.click("buy now")
    assert nothing.feedback().endswith(", ".join(wish.axis for wish in errand.wishes))


def test_a_size_is_too_small_or_too_large() -> None:
    game = WebShopCustomer(kind="fit")
    errand = errands_of(game, 0)[0]
    assert buy(game, errand, "large", "small").feedback().endswith("not met: size (too small)")
    assert buy(game, errand, "large", "xx-large").feedback().endswith("not met: size (too large)")
    assert buy(game, errand, "large", "large").feedback().endswith("not met: none")
    # Of five sizes one guess finds one, two find three, and three find all.
    assert success_rates(game, "memory", kind="fit") == pytest.approx([0.2, 0.6, 1.0])
    assert success_rates(game, "blind", kind="fit") == pytest.approx([0.2] * 3)
    assert success_rates(game, "known", kind="fit") == [1.0] * 3


def test_errands_keep_their_properties(game: WebShopCustomer) -> None:
    check_errands(game, range(60))
    check_errands(WebShopCustomer(wishes=2), range(5))
    check_errands(WebShopCustomer(errands="all"), range(20))


@pytest.mark.slow
@pytest.mark.parametrize(("split", "size"), LARGE)
@pytest.mark.parametrize("options", [{}, {"wishes": 2}, {"errands": "all"}, {"kind": "fit"}], ids=str)
def test_errands_keep_their_properties_in_many_meta_episodes(split: str, size: str, options: dict) -> None:
    check_errands(WebShopCustomer(split, size=size, **options), range(10_000))


def test_an_episode_alone_is_that_of_the_series() -> None:
    env = gym.make("mage/WebShopCustomer-v0", opponent="customer:large-cool-most")
    meta = gym.make("mage/WebShopCustomer-Meta-v0", opponent="customer:large-cool-most", memory="none")
    for seed in range(5):
        single_episodes = {number: env.reset(seed=seed, options={"episode": number})[0] for number in (2, 0, 1)}
        _, info = meta.reset(seed=seed)
        first_texts, terminated = {info["episode_index"]: info["information_state"]}, False
        while not terminated:
            *_, terminated, _, info = meta.step("no action")
            # After the last episode no state is left to act in.
            if not terminated:
                first_texts.setdefault(info["episode_index"], info["information_state"])
        assert len(set(single_episodes.values())) == 3
        assert [first_texts[number].startswith(single_episodes[number]) for number in range(3)] == [True] * 3


def test_the_players() -> None:
    """Every row equals its closed form over all customers, for the tasks that were played."""
    for options in ({}, {"wishes": 2}):
        game = WebShopCustomer(**options)
        errands = errands_in(game, tasks_of(game)[0].seed)
        orders = [[*errands[rotation:], *errands[:rotation]] for rotation in range(3)]
        expected = np.mean([compute_chances(order, SIZES) for order in orders], axis=0)
        assert success_rates(game, "memory", **options) == pytest.approx(expected)
    blind = success_rates(game, "blind", **options)
    assert blind == pytest.approx([expected[0]] * 3)
    assert success_rates(game, "known", **options) == [1.0] * 3
    assert max(success_rates(game, "wrong", **options)) <= blind[0]
    # The score says less than the parts do.
    scored = WebShopCustomer(feedback="score", **options)
    memory = success_rates(scored, "memory", feedback="score", **options)
    assert memory[0] == pytest.approx(expected[0])
    assert blind[2] + 0.2 < memory[2] <= expected[2]


def test_exact_values(game: WebShopCustomer) -> None:
    solution = CustomerSolution(game)
    solution_values = headroom(game, "pool:customer/all", episodes=5, objective="success")
    expected = np.zeros(5)
    for draws in product(solution.chances.items(), repeat=5):
        expected += prod(chance for _, chance in draws) * np.array(
            compute_chances([tastes for tastes, _ in draws], SIZES)
        )
    for credit in ("myopic", "sum", "mage", "last"):
        assert solution_values.per_episode[credit] == pytest.approx(tuple(expected))
    assert solution_values.blind == pytest.approx(expected[0])
    fit = headroom(WebShopCustomer(kind="fit"), "pool:customer/fit", objective="success")
    assert len(FIT[0].characters) == 5
    assert fit.per_episode["last"] == pytest.approx((0.2, 0.6, 1.0))
    with pytest.raises(ValueError, match="Use the pool customer/all"):
        headroom(game, "pool:customer/fit", objective="success")
    # A score shows less than the parts do.
    scored = headroom(WebShopCustomer(feedback="score"), "pool:customer/all", objective="success")
    assert scored.blind == solution_values.blind
    assert all(
        scored_value < unscored
        for scored_value, unscored in zip(scored.per_episode["sum"][1:], expected[1:3], strict=True)
    )


def test_the_contract() -> None:
    check_id("mage/WebShopCustomer-v0", opponent="customer:medium-warm-most", feedback="score")
    check_id("mage/WebShopCustomer-Meta-v0", kind="fit", opponent="pool:customer/fit")


def test_bad_options_are_refused_in_one_line(game: WebShopCustomer) -> None:
    for options in ({"kind": "x"}, {"wishes": 4}, {"wishes": True}, {"errands": "x"}, {"feedback": "x"}):
        with pytest.raises(ValueError, match=next(iter(options))):
            WebShopCustomer(**options)
    with pytest.raises(ValueError, match=r"fewer than 3 errands .* Use a larger size"):
        WebShopCustomer("val", kind="fit")
    with pytest.raises(ValueError, match="'blue' is unknown .* medium-plain-fewest"):
        gym.make("mage/WebShopCustomer-v0", opponent="customer:blue")
    text = "The customer wears size large (10 in shoes), likes blue and green (as scents ocean breeze and eucalyptus)"
    assert game.describe("large-cool-most") == f"{text} and buys the largest pack on offer."
    assert game.describe("xx-large") == "The customer wears size xx-large."
    with pytest.raises(RuntimeError, match="reveal_opponent=True"):
        evaluate(make_agent("policy:customer/known"), tasks_of(game)[:1], {})
