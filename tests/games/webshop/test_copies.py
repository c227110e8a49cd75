"""Copies in mid-episode go on as the original does, in this process and, through pickle, in another one."""

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
def made(data, tmp_path):
    """Makes an environment and plays its first actions; also gives the actions that are left."""

    def make(kind, options):
        given = {"data": str(data), **options}
        if given.get("goals") == "own":
            path = tmp_path / "goals.json"
            path.write_text(json.dumps(OWN))
            given["goals"] = str(path)
        env = gym.make(f"mage/WebShop-{kind}", **given)
        env.reset(seed=1)
        before, after = BEFORE, AFTER
        if kind != "v0":
            before, after = (tuple(f"<action>{action}</action>" for action in part) for part in (before, after))
            after = (*after, "<remark>choose better</remark>", f"<action>{FIND}</action>")
        for action in before:
            env.step(action)
        return env, after

    return make


def told(env, actions):
    return json.loads(json.dumps([env.step(action) for action in actions]))


@pytest.mark.parametrize("kind", ["v0", "Meta-v0"])
@pytest.mark.parametrize("options", OPTIONS)
def test_copies_go_on_alike(made, kind, options):
    env, actions = made(kind, options)
    stored = pickle.dumps(env)
    copies = [copy.deepcopy(env), pickle.loads(stored), copy.deepcopy(pickle.loads(stored))]
    expected = told(env, actions)
    assert len({answer[0] for answer in expected}) >= 3
    for other in copies:
        shop, own = (one.get_wrapper_attr("game").shop for one in (env, other))
        assert shop is own
        assert told(other, actions) == expected
    assert len(stored) < 30_000


@pytest.mark.parametrize("options", OPTIONS)
def test_a_copy_goes_on_in_another_process(made, options, tmp_path):
    env, actions = made("Meta-v0", options)
    (tmp_path / "env").write_bytes(pickle.dumps((env, actions)))
    (tmp_path / "goals.json").unlink(missing_ok=True)  # one's own goals go with the copy
    command = [sys.executable, "-c", GO_ON, str(tmp_path / "env")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == told(env, actions)


def test_copies_of_a_state_have_sessions_of_their_own(data):
    state = WebShop(data=data, num_prev_obs=1).task_state("B000000001-s0", np.random.default_rng(0))
    for action in BEFORE:
        state = state.after(action)
    before = dict(vars(state.session))
    for other in (copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        assert (other.observation(0), other.legal_actions) == (state.observation(0), state.legal_actions)
        assert other.session.shop is state.session.shop
        assert other.session.play("click[buy now]")
        assert vars(state.session) == before


def test_a_shop_is_one_for_all(shop, human_shop):
    shop, human_shop = (open_shop(one.catalogue.folder, one.kind, one.seed) for one in (shop, human_shop))
    own = shop.with_goals(OWN)
    for one in (shop, human_shop, own):
        assert copy.deepcopy(one) is one
        assert pickle.loads(pickle.dumps(one)) is one
    assert shop.with_goals(OWN) is own
    assert own.catalogue is shop.catalogue
    assert len({id(one) for one in (shop, human_shop, own, shop.with_goals(OWN[:1]))}) == 4


def test_a_shop_that_was_made_by_hand_is_opened_anew(shop):
    by_hand = Shop(shop.catalogue, "human", 7)
    other = pickle.loads(pickle.dumps(by_hand))
    assert (other.kind, other.seed, other.fingerprint) == ("human", 7, by_hand.fingerprint)
    assert other is not by_hand
    assert pickle.loads(pickle.dumps(other)) is other


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
    for one, player in (copy.deepcopy((hand, agent)), pickle.loads(pickle.dumps((hand, agent))), (hand, agent)):
        actions = []
        while not one.over:
            actions.append(player.act(one.turn(0)))
            one.answer(actions[-1])
        ways.append((actions, one.state.result(0)))
    assert ways[0] == ways[1] == ways[2]
    assert ways[0][0]
