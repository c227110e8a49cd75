"""Agents' sessions that others look at."""

import re
import time

import numpy as np
import pytest

from mage_envs.env import TextGameEnv
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.webshop.game import WebShop
from mage_envs.games.webshop.site.command import Player
from mage_envs.games.webshop.site.watching import LAST_ACTIONS, LONGEST_ACTION, MOST_WATCHES, WatchedEnv, Watches
from mage_envs.opponents import make_opponent
from mage_envs.wrappers import MetaEpisode
from mage_envs.wrappers.make import SeatedOpponents
from tests.games.webshop.site.shops import ROOT, Visitor

FIND, OPEN = "search[alba canvas ballet flats]", "click[b000000001]"


@pytest.fixture
def watches():
    return Watches()


@pytest.fixture
def watch(watches):
    return watches.add("the <agent>", ROOT, images=False)


@pytest.fixture
def look(shop, watches, watch):
    """Load the watched page again."""
    visitor = Visitor(shop, watches=watches)
    return lambda tail="": visitor.get(watch.url.removeprefix(ROOT) + tail)


@pytest.fixture
def game(data):
    return WebShop("train", data=data)


def env_of(game):
    return TextGameEnv(game, SeatedOpponents(None, game))


def test_a_watched_environment(game, watch, look):
    assert "Waiting for the agent" in look().page
    env = WatchedEnv(env_of(game), watch)
    env.reset(seed=0, options={"task": "B000000001-s0"})
    assert (watch.scene.episode, watch.scene.step, watch.scene.actions) == (1, 0, ())
    assert all(text in look().texts for text in ("Live: the <agent>", "Episode 1, step 0", "Find me women"))
    for action in (FIND, OPEN, "nonsense", "click[royal blue]"):
        env.step(action)
    page = look()
    assert (watch.scene.step, watch.scene.page.kind) == (4, "item")
    assert [action for _, action in watch.scene.actions] == ["click[royal blue]", "nonsense", OPEN, FIND]
    assert all(text in page.texts for text in ("Episode 1, step 4", "Alba Canvas Ballet Flats", "nonsense"))
    assert "<dt>color</dt><dd>royal blue</dd>" in page.page
    _, reward, terminated, _, _ = env.step("click[buy now]")
    assert terminated
    assert f"<pre>{reward}</pre>" in look().page
    env.reset(seed=1)
    assert (watch.scene.episode, watch.scene.step, watch.scene.page.kind) == (2, 0, "index")


def test_a_watched_meta_episode(game, watch, look):
    env = WatchedEnv(MetaEpisode(env_of(game), num_episodes=2), watch)
    env.reset(seed=0)
    for action in (FIND, OPEN):
        env.step(f"<action>{action}</action>")
    assert (watch.scene.episode, watch.scene.step, watch.scene.page.kind) == (1, 2, "item")
    _, _, _, _, info = env.step("<action>click[buy now]</action>")
    assert info["phase"] == "reflect"
    assert (watch.scene.episode, watch.scene.step, watch.scene.page.kind) == (2, 0, "index")  # it is dealt already
    env.step("<remark>I should choose options.</remark>")
    env.step("nonsense")
    env.step(f"<action>{FIND}</action>")
    assert (watch.scene.episode, watch.scene.step, watch.scene.page.kind) == (2, 3, "results")
    assert "Episode 2, step 3" in look().texts
    for action in (OPEN, "click[buy now]"):
        env.step(f"<action>{action}</action>")
    assert (watch.scene.episode, watch.scene.page.kind) == (2, "done")


def test_hands_of_one_episode_are_distinguished(game, watch):
    env = WatchedEnv(TextGameEnv(game, SeatedOpponents(None, game), hands_per_episode=2), watch)
    env.reset(seed=0)
    for action in (FIND, OPEN, "click[buy now]"):
        env.step(action)
    assert (watch.scene.episode, watch.scene.step, watch.scene.page.kind) == (2, 0, "index")
    env.step("nonsense")
    assert (watch.scene.episode, watch.scene.step, watch.scene.page.kind) == (2, 1, "index")


def test_other_games_have_no_pages(watch):
    game = KuhnPoker()
    with pytest.raises(TypeError, match="WatchedEnv requires WebShop, got KuhnPoker, which has no pages"):
        WatchedEnv(env_of(game), watch)


def test_watching_is_reading(game, watch, look):
    state = game.initial_state(np.random.default_rng(0))
    for action in ("", FIND, OPEN, "click[features]", "click[< prev]", "click[buy now]"):
        if action:
            state = state.after(action)
        watch.show(state.session, action or None)
        page = look()
        assert 'http-equiv="refresh" content="1"' in page.page
        assert "form_key" not in page.page
        outer = re.findall(r"<form[^>]*>\s*<fieldset[^>]*>", page.page)
        assert len(outer) == page.page.count("<form") == sum(fieldset.endswith(" disabled>") for fieldset in outer)
        assert page.answer.headers.get("Set-Cookie") is None
    assert "http-equiv" not in look("/still").page
    assert "Paused" in look("/still").page
    assert look("x").answer.status_code == 404
    visitor = Visitor(game.shop)
    assert visitor.client.post("/watch/x", base_url=ROOT, data={"a": "b"}).status_code == 405


def test_a_scene_stays_as_it_was(game, watch):
    session = game.initial_state(np.random.default_rng(0)).session
    session.play(FIND)
    session.play(OPEN)
    watch.show(session)
    scene = watch.scene
    text_before = repr(scene)
    session.play("click[red]")
    session.play("click[buy now]")
    assert repr(scene) == text_before


def test_long_episodes_and_actions_are_cut(game, watch):
    session = game.initial_state(np.random.default_rng(0)).session
    watch.show(session)
    for number in range(LAST_ACTIONS + 5):
        watch.show(session, f"{number} {'x' * 9000}")
    assert (watch.scene.step, len(watch.scene.actions)) == (LAST_ACTIONS + 5, LAST_ACTIONS)
    assert {len(action) for _, action in watch.scene.actions} == {LONGEST_ACTION}


def test_the_newest_watches_are_kept(watches):
    new_watches = [watches.add(str(number), ROOT, images=False) for number in range(MOST_WATCHES + 3)]
    tokens = [watch.url.rpartition("/")[2] for watch in new_watches]
    assert [watches.find(token) for token in tokens] == [None] * 3 + new_watches[3:]
    assert len(set(tokens)) == len(tokens)


@pytest.mark.parametrize("agent", ["rule", "oracle"])
def test_an_agent_that_plays_on_and_on(data, watch, look, agent, monkeypatch):
    game = WebShop("train", data=data)
    policy = make_opponent(f"webshop/{agent}", game)
    kinds, show = set(), watch.show

    def record_kind(session, action=None):
        kinds.add(session.page)
        show(session, action)

    monkeypatch.setattr(watch, "show", record_kind)
    with Player(game, policy, watch, np.random.default_rng(0), pace=0.001) as player:
        deadline = time.monotonic() + 60
        while watch.scene is None or watch.scene.episode < 4:
            assert time.monotonic() < deadline
            assert look().answer.status_code == 200
    assert not player._thread.is_alive()
    assert {"index", "results", "item"} <= kinds
