"""Copies in mid-episode continue as the original does, in this process and, through pickle, in another one."""

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from mage_envs.games.webshop.game import WebShop
from mage_envs.games.webshop.shop import Shop, open_shop
from mage_envs.hand import Hand, open_table
from mage_envs.opponents import make_opponent
from mage_envs.random.streams import Streams
from tests.games.webshop.test_goal_tables import OWN

FIND, OPEN = "search[alba canvas ballet flats]", "click[b000000001]"
BEFORE, AFTER = (
    (FIND, OPEN, "click[red]"),
    ("click[features]", "nonsense", "click[< prev]", "click[6]", "click[buy now]"),
)
OPTIONS = [
    {},
    {"goals": "human", "mode": "text_rich", "show_score": True},
    {"split": "all", "compat": True, "num_prev_obs": 2, "num_prev_actions": 1},
    {"goals": "own", "option_state": True},
    {"mode": "html", "price_seed": 3},
]
GO_ON = """
import json, pickle, sys
import mage_envs
with open(sys.argv[1], "rb") as file:
    env, actions = pickle.load(file)
sys.stdout.write(json.dumps([env.step(action) for action in actions]))
"""


@pytest.fixture
def make_started_env(data, tmp_path):
    """Makes an environment and plays its first actions; also gives the actions that are left."""

    def make(kind, options):
        env_options = {"data": str(data), **options}
        if env_options.get("goals") == "own":
            path = tmp_path / "goals.json"
            path.write_text(json.dumps(OWN))
            env_options["goals"] = str(path)
        env = gym.make(f"mage/WebShop-{kind}", **env_options)
        env.reset(seed=1)
        first_actions, next_actions = BEFORE, AFTER
        if kind != "v0":
            first_actions, next_actions = (
                tuple(f"<action>{action}</action>" for action in part) for part in (first_actions, next_actions)
            )
            next_actions = (*next_actions, "<remark>choose better</remark>", f"<action>{FIND}</action>")
        for action in first_actions:
            env.step(action)
        return env, next_actions

    return make


def step_all(env, actions):
    return json.loads(json.dumps([env.step(action) for action in actions]))


@pytest.mark.parametrize("kind", ["v0", "Meta-v0"])
@pytest.mark.parametrize("options", OPTIONS)
def test_copies_continue_alike(make_started_env, kind, options):
    env, actions = make_started_env(kind, options)
    stored = pickle.dumps(env)
    copies = [copy.deepcopy(env), pickle.loads(stored), copy.deepcopy(pickle.loads(stored))]
    expected = step_all(env, actions)
    assert len({answer[0] for answer in expected}) >= 3
    for env_copy in copies:
        shop, copied_shop = (each_env.get_wrapper_attr("game").shop for each_env in (env, env_copy))
        assert shop is copied_shop
        assert step_all(env_copy, actions) == expected
    assert len(stored) < 30_000


@pytest.mark.parametrize("options", OPTIONS)
def test_a_copy_continues_in_another_process(make_started_env, options, tmp_path):
    env, actions = make_started_env("Meta-v0", options)
    (tmp_path / "env").write_bytes(pickle.dumps((env, actions)))
    (tmp_path / "goals.json").unlink(missing_ok=True)  # one's own goals go with the copy
    command = [sys.executable, "-c", GO_ON, str(tmp_path / "env")]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(process.stdout) == step_all(env, actions)


def test_copies_of_a_state_have_sessions_of_their_own(data):
    state = WebShop(data=data, num_prev_obs=1).task_state("B000000001-s0", np.random.default_rng(0))
    for action in BEFORE:
        state = state.after(action)
    session_before = dict(vars(state.session))
    for state_copy in (copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        assert (state_copy.observation(0), state_copy.legal_actions) == (state.observation(0), state.legal_actions)
        assert state_copy.session.shop is state.session.shop
        assert state_copy.session.play("click[buy now]")
        assert vars(state.session) == session_before


def test_a_shop_is_one_for_all(shop, human_shop):
    shop, human_shop = (
        open_shop(each_shop.catalogue.folder, each_shop.kind, each_shop.seed) for each_shop in (shop, human_shop)
    )
    own_shop = shop.with_goals(OWN)
    for each_shop in (shop, human_shop, own_shop):
        assert copy.deepcopy(each_shop) is each_shop
        assert pickle.loads(pickle.dumps(each_shop)) is each_shop
    assert shop.with_goals(OWN) is own_shop
    assert own_shop.catalogue is shop.catalogue
    assert len({id(each_shop) for each_shop in (shop, human_shop, own_shop, shop.with_goals(OWN[:1]))}) == 4


def test_a_shop_that_was_made_by_hand_is_opened_again(shop):
    by_hand = Shop(shop.catalogue, "human", 7)
    reopened = pickle.loads(pickle.dumps(by_hand))
    assert (reopened.kind, reopened.seed, reopened.fingerprint) == ("human", 7, by_hand.fingerprint)
    assert reopened is not by_hand
    assert pickle.loads(pickle.dumps(reopened)) is reopened


def test_a_folder_by_another_name_is_the_same_shop(shop, monkeypatch):
    folder = shop.catalogue.folder
    shop = open_shop(folder, shop.kind, shop.seed)  # other tests may have opened more shops than are kept
    monkeypatch.chdir(folder.parent)
    assert open_shop(Path(folder.name), shop.kind, shop.seed) is shop


@pytest.mark.parametrize("name", ["rule", "oracle"])
def test_agents(data, name):
    game = WebShop(data=data)
    hand, agent, streams = Hand(game), make_opponent(f"webshop/{name}", game), Streams(3)
    hand.begin_episode(streams)
    hand.deal(open_table(1))
    agent.reset(np.random.default_rng(0))
    for _ in range(2):
        hand.answer(agent.act(hand.turn(0)))
    ways = []
    for hand_copy, player in (copy.deepcopy((hand, agent)), pickle.loads(pickle.dumps((hand, agent))), (hand, agent)):
        actions = []
        while not hand_copy.over:
            actions.append(player.act(hand_copy.turn(0)))
            hand_copy.answer(actions[-1])
        ways.append((actions, hand_copy.state.result(0)))
    assert ways[0] == ways[1] == ways[2]
    assert ways[0][0]
