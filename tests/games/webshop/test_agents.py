"""The oracle and the rule-following shopper."""

import gymnasium as gym
import numpy as np
import pytest

from mage_envs import make_game, play_match
from mage_envs.games.webshop import WebShop
from mage_envs.hand import Hand
from mage_envs.randomness import Streams
from opponents import make_opponent
from opponents.webshop import WebShopOracle, WebShopRule, instruction_in


def shopping(game, agent, goals):
    """(score, turns) for each goal."""
    hand, results = Hand(game), []
    for goal in goals:
        play(hand, agent, goal.id)
        results.append((hand.result(0).value, hand.turns))
    return results


def play(hand, agent, task):
    """Plays a hand; returns the actions, which are all legal."""
    streams, actions = Streams(0), []
    hand.deal((None,), streams, streams, task=task)
    agent.reset(np.random.default_rng(0))
    while not hand.over:
        actions.append(agent.act(hand.turn(0)))
        assert hand.answer(actions[-1]) is None
    return actions


@pytest.mark.parametrize("split", ["train", "val", "test", "ood_type", "ood_phrase", "ood_catalogue"])
def test_the_oracle_wins_everything(split):
    game = WebShop(split)
    results = shopping(game, WebShopOracle(WebShop(split)), list(game.shop.goals(split))[::5])
    assert len(results) > 30
    assert {score for score, _ in results} == {1.0}
    assert max(turns for _, turns in results) <= game.facts.max_turns


@pytest.mark.parametrize("options", [{"mode": "dict"}, {"mode": "text_rich"}, {"compat": True}, {"option_state": True}])
def test_the_oracle_reads_other_modes(options):
    game = WebShop(size="tiny", **options)
    results = shopping(game, WebShopOracle(WebShop(size="tiny", **options)), list(game.shop.goals("train"))[:20])
    assert {score for score, _ in results} == {1.0}


def test_the_oracle_on_official_data(data):
    """It wins what can be won: an empty option cannot be clicked, and one product misses its own goal."""
    game = WebShop(data=data)
    goals = [goal for split in ("train", "test") for goal in game.shop.goals(split)]
    lost = {goal.id for goal, (score, _) in zip(goals, shopping(game, WebShopOracle(game), goals)) if score < 1.0}
    assert lost == {"B000000003-s0", "B000000009-s0"}


def test_the_shopper_reads_pages_alone():
    game = WebShop("val")
    results = shopping(game, WebShopRule(), list(game.shop.goals("val"))[::3])
    scores = [score for score, _ in results]
    assert np.mean(scores) > 0.5
    assert 0.15 < np.mean([score == 1.0 for score in scores]) < 0.5
    assert max(turns for _, turns in results) <= game.facts.max_turns


def test_the_shopper_chooses_what_is_named(data):
    actions = play(Hand(WebShop(data=data)), WebShopRule(), "B000000001-s5")
    assert actions[0] == "search[Find me women's flats with color: red, and size: 8.5]"
    assert actions[2:] == ["click[red]", "click[8.5]", "click[buy now]"] or actions[1] != "click[b000000001]"


def test_by_name_in_a_match_and_in_a_meta_episode():
    game = make_game("WebShop", size="tiny")
    oracle = make_opponent("webshop/oracle", game)
    assert (play_match(game, [oracle], np.random.default_rng(0), hands=5).returns == 1.0).all()
    env = gym.make("mage/WebShop-Meta-v0", size="tiny", memory="none", num_episodes=2)
    _, info = env.reset(seed=0)
    won, done = [], False
    while not done:
        action = oracle.act(env.get_wrapper_attr("hand").turn(0))
        _, _, done, _, info = env.step(f"<action>{action}</action>")
        if info["episode_end"]:
            won.append(info["success"])
    assert won == [True, True]


def test_agents_say_what_they_cannot_read():
    with pytest.raises(ValueError, match="they read the modes text, text_rich and dict"):
        instruction_in("http://127.0.0.1:3000/session")
    with pytest.raises(TypeError, match="needs WebShop's own rules, not Sokoban"):
        WebShopOracle(make_game("Sokoban"))
