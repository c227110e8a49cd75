"""The words of WebShop's pages and actions, and that the visitors' actions have words."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from mage_envs.core import Turn
from mage_envs.games.webshop.words import VOCABULARY, price_limit, read_page, spell_actions, without_price
from mage_envs.opponents import make_opponent

INSTRUCTION = "i want a red cotton shirt in size large, and price lower than 20.00 dollars"
RESULTS = (
    f"Instruction: [SEP] {INSTRUCTION} [SEP] Back to Search [SEP] Page 2 (Total results: 12) [SEP] < Prev [SEP] "
    "Next > [SEP] B0AAA [SEP] Red Shirt, Cotton [SEP] $15.0 to $30.0 [SEP] B0BBB [SEP] Blue Hat [SEP] $20.5"
)
ITEM = (
    f"Instruction: [SEP] {INSTRUCTION} [SEP] Back to Search [SEP] < Prev [SEP] color [SEP] red [SEP] blue [SEP] size "
    "[SEP] large [SEP] x-large [SEP] Red Shirt, Cotton [SEP] Price: $15.0 [SEP] Rating: N.A. [SEP] Description [SEP] "
    "Features [SEP] Reviews [SEP] Buy Now"
)
DONE = "Thank you for shopping with us! [SEP] The instruction is not met. Parts not met: options (1 of 2 met), price"


def test_an_instruction_has_a_limit() -> None:
    assert price_limit(INSTRUCTION) == 20.0
    assert without_price(INSTRUCTION) == "i want a red cotton shirt in size large"
    assert price_limit("a shirt") == float("inf")


def test_the_words_of_each_page() -> None:
    assert read_page(f"WebShop [SEP] Instruction: [SEP] {INSTRUCTION} [SEP] Search", 0) == ("shop",)
    assert read_page(RESULTS, 0) == ("page-2", "product-11", "shared-3", "product-12", "shared-0", "dear")
    # Behind the buttons, `red` is the second text of the page, `size` the fourth one and `large` the fifth one.
    assert read_page(ITEM, 0) == ("product", "option-2", "option-4", "option-5")
    assert read_page(f"Instruction: [SEP] {INSTRUCTION} [SEP] Back to Search [SEP] < Prev [SEP] Soft.", 0) == ("text",)
    assert read_page(DONE, 0) == ("bought", "options", "price")


def test_the_words_of_the_actions() -> None:
    clicks = ("click[back to search]", "click[< prev]", "click[next >]", "click[b0aaa]", "click[b0bbb]")
    assert spell_actions(RESULTS, ("search[<your query>]", *clicks)) == {
        "search[i want a red cotton shirt in size large]": "search",
        "search[in size large]": "search-end",
        **dict(zip(clicks, ("back-to-search", "prev", "next", "product-11", "product-12"), strict=True)),
    }
    spelled = spell_actions(ITEM, ("search[<your query>]", "click[buy now]", "click[red]", "click[x-large]"))
    assert [spelled[f"click[{name}]"] for name in ("buy now", "red", "x-large")] == ["buy-now", "option-2", "option-6"]


@pytest.mark.parametrize("player", ["webshop/next", "webshop/rule"])
def test_all_that_a_visitor_does_has_a_word_of_its_own(player: str) -> None:
    """A constrained model can do it, and no two actions of a page have the same word."""
    env = gym.make("mage/WebShop-Meta-v0", style="words", memory="history", context="conversation", num_episodes=2)
    policy, actions = make_opponent(player, env.get_wrapper_attr("game")), 0
    for seed in range(6):
        text, info = env.reset(seed=seed)
        policy.on_meta_episode_start()
        policy.reset(np.random.default_rng(0))
        over = False
        while not over:
            assert set(text.split()) <= {*VOCABULARY, "episode", "1", "2", "success", "failure", "first"}
            spelled = info["action_words"]
            assert len(set(spelled.values())) == len(spelled)
            action = policy.act(Turn.from_info(info, info["anchor"]))
            assert spelled[action] in VOCABULARY
            actions += 1
            text, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
    assert actions > 30


def test_a_memory_shows_the_words_of_past_actions() -> None:
    env = gym.make("mage/WebShop-Meta-v0", style="words", memory="history", context="rebuilt", num_episodes=2)
    _, info = env.reset(seed=0)
    search, product = next(iter(info["action_words"])), ""
    _, _, _, _, info = env.step(search)
    product = next(action for action, word in info["action_words"].items() if word == "product-1")
    env.step(product)
    text, _, _, _, _ = env.step("click[buy now]")
    assert text.startswith("episode 1 shop search page-1 product-1 ")
    assert " product-1 product " in text
