"""The oracle and the rule-following shopper."""

import gymnasium as gym
import numpy as np
import pytest

from mage_envs import make_game, play_match
from mage_envs.benchmarks import evaluate, make_agent
from mage_envs.core import Task
from mage_envs.games.webshop.game import WebShop
from mage_envs.games.webshop.words import instruction_in
from mage_envs.hand import Hand, open_table
from mage_envs.opponents import make_opponent
from mage_envs.opponents.solo.webshop import WebShopFirst, WebShopNext, WebShopOracle, WebShopRule
from mage_envs.random.streams import Streams


def shopping(game, agent, goals):
    """(score, turns) for each goal."""
    hand, results = Hand(game), []
    for goal in goals:
        play(hand, agent, goal.id)
        results.append((hand.state.result(0).value, hand.turns))
    return results


def play(hand, agent, task):
    """Plays a hand; returns the actions, which are all legal."""
    streams, actions = Streams(0), []
    hand.begin_episode(streams, task_id=task)
    hand.deal(open_table(1))
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
    assert max(turns for _, turns in results) <= game.spec.max_turns


def test_the_oracle_finds_the_catalogue_of_a_goal():
    game = WebShop("val", catalogues=3)
    goals = [goal for shop in game.shops() for goal in list(shop.goals("val"))[::40]]
    assert len(goals) > 12
    assert {score for score, _ in shopping(game, WebShopOracle(WebShop("val", catalogues=3)), goals)} == {1.0}


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
    assert 0.25 < np.mean([score == 1.0 for score in scores]) < 0.6
    assert max(turns for _, turns in results) <= game.spec.max_turns


def test_the_shopper_chooses_the_named_options(data):
    actions = play(Hand(WebShop(data=data)), WebShopRule(), "B000000001-s5")
    assert actions[0] == "search[Find me women's flats with color: red, and size: 8.5]"
    assert actions[2:] == ["click[red]", "click[8.5]", "click[buy now]"] or actions[1] != "click[b000000001]"


def test_by_name_in_a_match_and_in_a_meta_episode():
    game = make_game("WebShop", size="tiny")
    oracle = make_opponent("webshop/oracle", game)
    assert (play_match(game, [oracle], np.random.default_rng(0), hands=5).returns == 1.0).all()
    env = gym.make("mage/WebShop-Meta-v0", size="tiny", memory="none", num_episodes=2)
    _, info = env.reset(seed=0)
    won, terminated = [], False
    while not terminated:
        action = oracle.act(env.get_wrapper_attr("hand").turn(0))
        _, _, terminated, _, info = env.step(f"<action>{action}</action>")
        if info["episode_end"]:
            won.append(info["success"])
    assert won == [True, True]


def try_agent(name, count=40):
    """Successes in each of three episodes over the same goals, and the first episodes' score."""
    goals = list(WebShop("val").shop.goal_ids("val"))[:count]
    tasks = [
        Task(env_id="mage/WebShop-Meta-v0", opponent=None, seat=None, seed=seed, task_id=goal)
        for seed, goal in enumerate(goals)
    ]
    trajectories = evaluate(make_agent(f"policy:{name}"), tasks, {"split": "val", "memory": "none"})
    assert not any(episode.timeout for trajectory in trajectories for episode in trajectory.episodes)
    successes = [sum(trajectory.episodes[k].success for trajectory in trajectories) for k in range(3)]
    return successes, sum(trajectory.episodes[0].value for trajectory in trajectories)


def test_the_floors_on_forty_goals():
    """Pin the scores of blind tries: the next product after each failure, the same one after a success."""
    assert try_agent("webshop/first") == ([5, 5, 5], pytest.approx(22.0976, abs=1e-4))
    assert try_agent("webshop/next") == ([20, 25, 26], pytest.approx(33.5571, abs=1e-4))
    assert try_agent("webshop/rule") == ([20, 20, 20], pytest.approx(33.5571, abs=1e-4))


def test_first_reads_nothing_but_the_instruction():
    game = WebShop("val")
    goal = game.shop.goal(next(game.shop.goal_ids("val")))
    actions = play(Hand(game), WebShopFirst(), goal.id)
    first_product = game.shop.catalogue.product(game.shop.search(goal.instruction.lower())[0])
    assert actions == [f"search[{goal.instruction}]", f"click[{first_product.asin.lower()}]", "click[buy now]"]


def test_next_tries_in_the_order_of_the_results_and_keeps_to_a_success():
    game, agent = WebShop("val"), WebShopNext()
    hand, streams = Hand(game), Streams(0)

    def buy(task, success, has_result=True):
        hand.begin_episode(streams, task_id=task)
        hand.deal(open_table(1))
        agent.reset(np.random.default_rng(0))
        opened = ""
        while not hand.over:
            action = agent.act(hand.turn(0))
            if hand.turn(0).observation.find("Total results") >= 0 and action != "click[next >]":
                opened = action
            assert hand.answer(action) is None
        if has_result:
            agent.on_hand_end(hand.turn(0)._replace(success=success))
        return opened

    first_goal, second_goal = list(game.shop.goal_ids("val"))[:2]
    agent.on_meta_episode_start()
    first_bought, second_bought = (
        buy(first_goal, False),
        buy(first_goal, False, has_result=False),
    )  # the agent gets no result if a hand times out
    third_bought = buy(first_goal, True)
    assert len({first_bought, second_bought, third_bought}) == 3
    goal = game.shop.goal(first_goal)
    words = goal.instruction.partition(", and price lower than")[0].lower()
    products = [game.shop.catalogue.product(position) for position in game.shop.search(words)]
    fitting = [f"click[{p.asin.lower()}]" for p in products if p.low <= goal.price_upper]
    assert [first_bought, second_bought, third_bought] == fitting[:3]
    assert buy(first_goal, True) == third_bought
    assert buy(first_goal, False) == third_bought
    assert buy(first_goal, False) == fitting[3]
    buy(second_goal, False)
    assert buy(first_goal, False) == first_bought, "another instruction is another goal"
    agent.on_meta_episode_start()
    assert buy(first_goal, False) == first_bought


def test_agents_say_what_they_cannot_read():
    with pytest.raises(ValueError, match="Use the mode text, text_rich or dict"):
        instruction_in("http://127.0.0.1:3000/session")
    with pytest.raises(TypeError, match="expects WebShop, got "):
        WebShopOracle(make_game("Sokoban"))
