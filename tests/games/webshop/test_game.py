"""WebShop as a text game, and its place in the environments."""

import contextlib
import json
import warnings

import gymnasium as gym
import numpy as np
import pytest

from mage_envs import HandResult, IllegalAction, settings_of
from mage_envs.core import is_success
from mage_envs.games.webshop.game import EXAMPLE, WebShop
from mage_envs.games.webshop.pages import MODES
from mage_envs.games.webshop.session import THANKS
from tests.contract import GARBAGE, check_id, transcript
from tests.games.webshop.test_pages import Reader

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # with pygame installed, PettingZoo imports deprecated modules of its own
    from pettingzoo.test import api_test, seed_test

BUY = ("search[alba canvas ballet flats]", "click[b000000001]", "click[royal blue]", "click[6]", "click[buy now]")
GOAL = "B000000001-s0"


@pytest.fixture
def play(data, rng):
    """The state after some actions in the hand-written catalogue."""

    def start(*actions, goal=GOAL, **options):
        state = WebShop(**({"data": data} | options)).task_state(goal, rng)
        for action in actions:
            state = state.after(action)
        return state

    return start


def test_a_purchase(play):
    state = play(*BUY[:-1])
    assert (state.player, state.returns, state.won(0), state.metrics()) == (0, (0.0,), False, {"task_score": 0})
    bought = state.after(BUY[-1])
    assert (bought.player, bought.returns, bought.won(0), bought.legal_actions) == (None, (1.0,), True, ())
    assert bought.observation(0) == f"{THANKS} [SEP] The instruction is met. Parts not met: none"
    assert bought.metrics() == {"task_score": 1.0, "r_type": 1.0, "r_att": 1.0, "r_option": 1.0, "r_price": 1.0}
    with pytest.raises(IllegalAction):
        bought.after("search[x]")


def test_a_poor_purchase_is_not_a_success(play):
    state = play(*BUY[:2], "click[red]", "click[buy now]")
    assert state.returns == (pytest.approx(3 / 5),)
    assert state.won(0) is False
    assert not is_success([HandResult(0.6, success=state.won(0))])
    assert not is_success([HandResult(0.0, ended_by="timeout")])
    assert is_success([HandResult(1.0, success=True)])
    forfeited, won = HandResult(0.0, ended_by="forfeit"), HandResult(1.0, success=True)
    assert not is_success([forfeited, won])
    assert not is_success([won, forfeited])


def test_rewards():
    good, bad, late = HandResult(1.0, success=True), HandResult(0.9, success=False), HandResult(0.0, ended_by="timeout")
    settings = settings_of("WebShop")
    task, released = settings.rewards["task"], settings.rewards["released"]
    assert [task(hands, 1) for hands in ([], [good], [bad], [late], [good, bad])] == [0, 10, -10, -10, -10]
    assert [released(hands, 1) for hands in ([], [good], [bad], [late], [good, bad])] == [0, 10, 0, 0, 0]
    assert (settings.history_window, settings.reflect_window, settings.invalid_penalty) == (5, 20, 0.5)


def test_facts():
    facts = WebShop.spec
    assert (facts.name, facts.players, facts.unit, facts.max_turns, facts.actions) == ("WebShop", 1, "score", 12, None)
    assert (facts.min_return, facts.max_return, facts.perfect_information) == (0.0, 1.0, False)


def test_legal_actions(play):
    state = play()
    assert state.legal_actions == (EXAMPLE,)
    for action in BUY:
        assert state.legal_actions[0] == EXAMPLE
        state = state.after(action)
    assert play(EXAMPLE).session.page == "results"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (" Click[ Buy Now ] ", "click[buy now]"),
        ("search[Red SHOES] please", "search[red shoes]"),
        ("buy", "buy"),
        ("click[[2 Pack] x]", "click[[2 pack] x]"),
        ("", ""),
    ],
)
def test_spellings(play, text, canonical):
    assert play().canonical(text) == canonical


def test_illegal_actions_change_nothing(play):
    state = play(*BUY[:3])
    views_before = (state.observation(0), state.legal_actions, state.information_state(0))
    for text in ("", "buy", "click[nothing]", "click[search]", "search[]", "click[green]", *GARBAGE):
        with pytest.raises(IllegalAction, match=r"choose one of: search\[<your query>\], or a click"):
            state.after(text)
    assert (state.observation(0), state.legal_actions, state.information_state(0)) == views_before


def test_a_state_stays_as_it_is(play):
    """Return the same page and the same next states from a state, even if play continued from it."""

    def describe(state):
        return state.observation(0), state.information_state(0), state.legal_actions, state.returns, state.metrics()

    states = [play(num_prev_obs=2, num_prev_actions=1)]
    for action in (*BUY[:3], "click[features]", "click[< prev]", BUY[4]):
        states.append(states[-1].after(action))
    ways = {action for state in states for action in state.legal_actions} - {EXAMPLE}
    views_before = [describe(state) for state in states]
    views_after = {
        (index, way): describe(state.after(way)) for index, state in enumerate(states) for way in state.legal_actions
    }
    assert len(ways) > 10
    assert [describe(state) for state in states] == views_before
    for (index, way), expected in reversed(views_after.items()):
        assert describe(states[index].after(way)) == expected


def test_options_in_the_text_only_where_asked_for(play):
    page = play(*BUY[:2]).observation(0)
    option_page = play(*BUY[:4])
    assert option_page.observation(0) == page
    assert option_page.information_state(0) != play(*BUY[:2]).information_state(0)
    state = play(*BUY[:4], option_state=True)
    assert state.observation(0) == f"{page} [SEP] Chosen: color: royal blue, size: 6"
    state = state.after("click[features]")
    assert state.observation(0).endswith("Non slip [SEP] Chosen: color: royal blue, size: 6")
    assert "Chosen" not in state.after("click[back to search]").observation(0)


def test_score_on_the_last_page_only_where_asked_for(play):
    assert "score" not in play(*BUY).observation(0)
    assert (
        play(*BUY, show_score=True, feedback="none")
        .observation(0)
        .endswith("max 1.0) [SEP] 1.0 [SEP] Reward Details [SEP] None")
    )
    assert "Your score" in play(*BUY, compat=True, split="val").observation(0)


def test_the_last_page_names_the_parts_that_are_not_met(play):
    wrong = (*BUY[:2], "click[red]", "click[buy now]")
    unmet = "The instruction is not met. Parts not met: options (0 of 2 met)"
    assert play(*wrong).observation(0) == f"{THANKS} [SEP] {unmet}"
    assert play(*wrong, mode="text_rich").observation(0) == f"{THANKS}\n{unmet}\n"
    assert json.loads(play(*wrong, mode="dict").observation(0))["feedback"] == unmet
    assert f">{unmet}</p>" in play(*wrong, mode="html").observation(0)
    last_page = play("search[heath slippers]", "click[b000000008]", "click[buy now]").observation(0)
    unmet = "kind of product, properties (1 of 2 met), options (0 of 2 met)"
    assert last_page == f"{THANKS} [SEP] The instruction is not met. Parts not met: {unmet}"


def test_no_parts_under_compat_or_if_not_asked_for(play):
    wrong = (*BUY[:2], "click[red]", "click[buy now]")
    assert play(*wrong, feedback="none").observation(0) == THANKS
    assert "Parts not met" not in play(*wrong, compat=True, split="val").observation(0)


def test_episodes_draw_from_several_catalogues(rng):
    game, single_game = WebShop("val", catalogues=3), WebShop("val")
    states = [game.initial_state(rng) for _ in range(40)]
    assert {game.family(state.task_id).partition("-")[0] for state in states} == {"0", "1", "2"}
    assert len({state.session.shop for state in states}) == 3
    for state in states:
        same_state = game.task_state(state.task_id, rng)
        assert (same_state.observation(0), same_state.session.shop) == (state.observation(0), state.session.shop)
    assert game.data_hash() == WebShop("val", catalogues=3).data_hash()
    assert len({game.data_hash(), single_game.data_hash(), WebShop("val", catalogues=2).data_hash()}) == 3
    further = next(state.task_id for state in states if game.family(state.task_id).startswith("2-"))
    for other_game in (single_game, WebShop("val", catalogues=2)):
        with pytest.raises(ValueError, match=f"There is no made goal '{further}'"):
            other_game.task_state(further, rng)


def test_compat_reads_actions_as_the_original(play):
    state = play("search[heath slippers]", "click[b000000008]", compat=True, split="val")
    for text in ("click[x [2]]", "Click[buy now]", "click[ buy now]"):
        with pytest.raises(IllegalAction):
            state.after(text)
    assert state.after("click[BUY NOW] thanks").session.page == "done"


def test_compat_draws_by_the_originals_numbers(data):
    game = WebShop("val", data=data, compat=True)
    states = [game.initial_state(np.random.default_rng(seed)) for seed in range(300)]
    assert len({state.task_id for state in states}) > 40  # all 47 goals are among the first 500
    assert {state.category for state in states} == {"val"}
    with pytest.raises(ValueError, match="split='train' has no synthetic goals"):
        WebShop(data=data, compat=True)


def test_tasks(data, rng):
    game = WebShop(data=data)
    states = [game.initial_state(rng) for _ in range(800)]
    assert {state.category for state in states} == {"train"}
    assert {state.task_id for state in states} == {goal.id for goal in game.shop.goals("train")}
    held_out = next(iter(game.shop.goals("test"))).id
    for goal in (GOAL, held_out, GOAL):
        state = game.task_state(goal, rng)
        assert (state.task_id, state.category) == (goal, "test" if goal == held_out else "train")
    with pytest.raises(ValueError, match="There is no synthetic goal 'B0-s1'"):
        game.task_state("B0-s1", rng)


def test_the_goal_is_a_function_of_the_generators_state(data):
    game, second_game = WebShop(data=data), WebShop(data=data)
    for seed in range(20):
        first_state, second_state = (
            each_game.initial_state(np.random.default_rng(seed)) for each_game in (game, second_game)
        )
        assert (first_state.task_id, first_state.observation(0)) == (second_state.task_id, second_state.observation(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "txt"}, "mode='txt' is unknown; choose one of: 'text', 'text_rich', 'html', 'url', 'dict'"),
        ({"mode": "html", "option_state": True}, "option_state=True requires mode='text'"),
        ({"split": "dev"}, "split='dev' has no synthetic goals"),
        ({"goals": "made"}, "goals='made' is unknown"),
        ({"size": "tiny"}, "size='tiny' is unknown for the original's data"),
        ({"price_seed": 1.5}, "price_seed=1.5 must"),
        ({"feedback": "score"}, "feedback='score' is unknown; choose one of: 'parts', 'none'"),
        ({"catalogues": 2}, "catalogues=2 must be at most 1"),
        ({"data": None, "catalogues": 0}, "catalogues=0 must be a whole number of at least 1"),
        ({"data": None, "catalogues": 21}, "catalogues=21 must be at most 20"),
        ({"data": None, "size": "tiny", "catalogues": 2}, "catalogues=2 must be at most 1"),
        ({"data": None, "goals": "human"}, "The built-in catalogue has its own goals"),
        ({"data": None, "size": "huge"}, "size='huge' is unknown; choose one of: 'tiny', 'small'"),
    ],
)
def test_bad_options(data, options, message):
    with pytest.raises(ValueError, match=message):
        WebShop(**({"data": data} | options))


def test_price_seeds_draw_other_limits(data):
    limits = {WebShop(data=data, price_seed=seed).shop.goal(GOAL).price_upper for seed in range(12)}
    assert limits == {40.0, 50.0, 60.0}


def test_a_converted_folder_is_as_good_as_the_files(data):
    folder = WebShop(data=data).shop.catalogue.folder
    assert WebShop(data=str(folder)).shop is WebShop(data=data).shop


# -- the built-in catalogue ------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["train", "val", "test", "ood_type", "ood_phrase", "ood_catalogue"])
def test_the_built_in_catalogue_has_every_split(split):
    game = WebShop(split, size="tiny")
    assert len(game.shop.catalogue) == 100
    goals = list(game.shop.goals(split))
    assert goals
    for goal in goals:
        assert goal.split == split
        product = game.shop.catalogue.product(game.shop.catalogue.find(goal.asin))
        assert product.price(0) <= goal.price_upper
    state = game.task_state(goals[0].id, np.random.default_rng(0))
    assert (state.task_id, state.category) == (goals[0].id, split)


def test_splits_share_no_product():
    shop = WebShop(size="tiny").shop
    owners = {}
    for split in ("train", "val", "test", "ood_type", "ood_phrase"):
        for goal in shop.goals(split):
            assert owners.setdefault(goal.asin, split) == split


@pytest.mark.parametrize("compat", [False, True])
def test_everything_legal_is_accepted_and_all_modes_say_the_same(compat):
    rng, pages_seen = np.random.default_rng(3), set()
    game = WebShop(size="tiny", compat=compat, show_attributes=True)
    for _ in range(60):
        state = game.initial_state(rng)
        for _ in range(25):
            legal = state.legal_actions
            if not legal:
                break
            words = [f"search[{state.session.goal.instruction}]", "search[gift]", *legal]
            state = state.after(words[int(rng.integers(len(words)))])
            pages_seen.add(state.session.page)
            pages = {mode: render(state.session, False) for mode, render in MODES.items()}
            texts = pages["text"].split(" [SEP] ")
            reader = Reader()
            reader.feed(pages["html"])
            reader.close()
            assert reader.texts == texts
            assert all(text in pages["text_rich"] for text in texts)
            assert json.loads(pages["dict"])["page"] == state.session.page
    assert pages_seen == {"index", "results", "item", "sub", "done"}


# -- the environments ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["v0", "Meta-v0"])
@pytest.mark.parametrize("options", [{}, {"mode": "dict"}, {"mode": "html", "compat": True}, {"option_state": True}])
def test_contract(kind, options):
    check_id(f"mage/WebShop-{kind}", size="tiny", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"protocol": "paper"},
        {"memory": "both"},
        {"context": "conversation"},
        {"hands_per_episode": 2, "on_invalid": "forfeit"},
        {"max_turns": 1},
    ],
)
def test_contract_of_meta_options(options):
    check_id("mage/WebShop-Meta-v0", size="tiny", **options)


def test_base_id(data):
    env = gym.make("mage/WebShop-v0", data=str(data))
    observation, info = env.reset(seed=0, options={"task": GOAL})
    assert observation.startswith("WebShop [SEP] Instruction: [SEP] Find me women's flats with color: royal blue")
    assert info["private"] == {"task": GOAL, "category": "train", "metrics": {"task_score": 0.0}}
    for action in BUY:
        _, reward, terminated, _, info = env.step(action)
    assert (reward, terminated, info["success"], info["private"]["metrics"]["task_score"]) == (1.0, True, True, 1.0)


def test_running_out_of_turns_is_not_a_success(data):
    env = gym.make("mage/WebShop-v0", data=str(data))
    env.reset(seed=0)
    for _ in range(12):
        _, reward, terminated, _, info = env.step("search[shoes]")
    assert (reward, terminated, info["success"], info["timeout"]) == (0.0, True, False, True)


@pytest.mark.parametrize(("protocol", "expected"), [("adaptive", [-10.0, 10.0, -10.0]), ("paper", [0.0, 10.0])])
def test_every_episode_has_the_same_goal(data, protocol, expected):
    env = gym.make("mage/WebShop-Meta-v0", data=str(data), protocol=protocol, memory="none", max_turns=5)
    prompt, info = env.reset(seed=1, options={"task": GOAL})
    first_anchor, paid, terminated = info["anchor"], [], False
    assert "Legal actions: search[<your query>]\n" in prompt
    while not terminated:
        assert info["private"]["task"] == GOAL
        for action in BUY if info["episode_index"] == 1 else ("search[shoes]",) * 5:
            _, reward, terminated, _, info = env.step(f"<action>{action}</action>")
        paid.append(reward)
        assert info["anchor"] == first_anchor or terminated
    assert paid == expected


def test_same_goal_for_equal_seeds_of_a_group():
    envs = [gym.make("mage/WebShop-Meta-v0", size="tiny") for _ in range(2)]
    for seed in range(5):
        tasks = {env.reset(seed=seed)[1]["private"]["task"] for env in envs}
        assert len(tasks) == 1
    assert transcript(envs[0], 3) == transcript(envs[1], 3)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_pettingzoo():
    from mage_envs.aec import web_shop_v0

    api_test(web_shop_v0.env(size="tiny"), num_cycles=50)
    seed_test(lambda: web_shop_v0.env(size="tiny"), num_cycles=20)
    env = web_shop_v0.env(size="tiny")
    env.reset(seed=0)
    observation, _, _, _, info = env.last()
    assert set(observation) == {"text"}
    assert info["legal_actions"] == (EXAMPLE,)
    env.step("click[nowhere]")
    assert env.rewards == {"player_0": 0.0}


def test_garbage_of_any_kind_never_raises(data):
    for options in ({}, {"compat": True, "split": "val"}, {"mode": "text_rich"}, {"mode": "html"}):
        game = WebShop(data=data, **({"split": "train"} | options))
        state = game.initial_state(np.random.default_rng(0))
        for text in GARBAGE:
            for action in (text, f"search[{text}]", f"click[{text}]", f"search[{text[:900]}]"):
                with contextlib.suppress(IllegalAction):
                    state = state.after(action)
                assert isinstance(state.observation(0), str)
