"""The hooks of a memory: their order, their views, the course of requests and answers, and the keys of `info`."""

from __future__ import annotations

import copy
import json
import pickle
from types import SimpleNamespace

import pytest

from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.text.parser import Reply, parse_reply
from mage_envs.text.prompts import EpisodeRecord
from mage_envs.trainer.method.advantages import CreditConfig, compute_advantages
from mage_envs.trainer.method.returns import step_returns
from mage_envs.wrappers import Memory, Request, as_memory
from mage_envs.wrappers.model_calls import TooManyCalls
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator
from tests.wrappers.memory_players import good, kinds, make, play


class Talker:
    """Returns a request at every hook, `follow` more times each, and stores its views."""

    carries_transcript = False

    def __init__(self, follow=0, hooks=("before_episode", "after_episode", "before_turn", "after_turn"), tag="remark"):
        self.follow, self.hooks, self.tag = follow, hooks, tag
        self.log, self.answers, self.views = [], [], []

    def begin(self):
        self.log, self.answers, self.views, self.left = [], [], [], 0

    def _hook(self, name, view, *facts):
        self.log.append((name, *facts))
        self.views.append((name, view._replace(records=list(view.records), turns=list(view.turns))))
        self.left = self.follow
        return Request(name, f"{name}?", self.tag, 30) if name in self.hooks else None

    def before_episode(self, episode, view):
        return self._hook("before_episode", view, episode)

    def after_episode(self, view, last):
        return self._hook("after_episode", view, view.records[-1].index, last)

    def before_turn(self, view):
        return self._hook("before_turn", view, view.turn.observation)

    def after_turn(self, view):
        return self._hook("after_turn", view, view.turns[-1].action)

    def on_answer(self, request, answer, view):
        self.answers.append((request.kind, answer))
        if self.left:
            self.left -= 1
            return Request(f"{request.kind.rstrip('+')}+", "and?", None)
        return None

    def render(self, view):
        self.log.append(("render", view.turn.observation))
        return ""

    def shorten(self):
        return False

    def events(self):
        return [{"event": "heard", "kind": kind} for kind, _ in self.answers[-1:]]


def talker(env):
    return env.memory


def test_the_hooks_come_in_order_and_the_episode_is_dealt_before_them():
    env = make(memory=Talker, num_episodes=2, opponent="kuhn/maniac", seat="first")
    log = play(env, lambda info: good(info) if info["kind"] != "play" else "<action>bet</action>")
    names = [entry[0] for entry in talker(env).log]
    assert names == ["before_episode", "before_turn", "render", "after_turn", "after_episode"] * 2
    assert [row[1]["kind"] for row in log] == [
        *["before_episode", "before_turn", "play", "after_turn", "after_episode"] * 2
    ]
    episodes = [row[1]["episode_index"] for row in log]
    assert episodes == [0, 0, 0, 1, 1, 1, 1, 1, 2, 2]  # the episode that each call serves; none is left for the last
    assert ("after_episode", 0, False) in env.memory.log
    assert ("after_episode", 1, True) in env.memory.log
    views = dict(talker(env).views[:1])
    assert views["before_episode"].first_observation.startswith("Your card: ")
    assert [row[3] for row in log if row[4]["episode_end"]] == [row[4]["episode_return"] for row in log][2::5]
    assert [row[4]["private"].get("opponent") for row in log][:-1] == [None] * 9
    assert log[-1][4]["private"]["opponent"] == "kuhn/maniac"


def test_views_tell_where_the_meta_episode_is():
    env = make("mage/Sokoban-Meta-v0", memory=Talker, num_episodes=2, max_turns=2)
    play(env, lambda info: good(info) if info["kind"] != "play" else f"Hm. <action>{info['legal_actions'][0]}</action>")
    for name, view in talker(env).views:
        assert view.category == "2 boxes"
        assert (view.turn is None) == (name in ("before_episode", "after_episode") or len(view.turns) == 2)
        if view.turn is not None:
            assert "Row 1: # # # # # #" in view.turn.observation
        assert view.first_observation == talker(env).views[0][1].first_observation
    assert [view.episode for name, view in talker(env).views if name == "before_episode"] == [0, 1]
    turn = talker(env).views[-1][1].turns[-1]
    assert (turn.thought, turn.reply.startswith("Hm. <action>")) == ("Hm.", True)


@pytest.mark.parametrize("game", ["KuhnPoker", "Sokoban", "TicTacToe"])
def test_no_view_holds_the_opponents_name_hidden_cards_or_metrics(game):
    """The opponent always folds to a bet, so that no card but the learner's own is ever shown."""
    options = {"opponent": "kuhn/passive", "deal": "replay"} if game == "KuhnPoker" else {}
    env = make(f"mage/{game}-Meta-v0", memory=Talker, **options)

    def answer(info):
        if info["kind"] != "play":
            return good(info)
        return f"<action>{'bet' if 'bet' in info['legal_actions'] else info['legal_actions'][0]}</action>"

    log = play(env, answer)
    all_views = repr([view for _, view in talker(env).views])
    name = log[-1][4]["private"]["opponent"]
    assert not name or (name not in all_views and name.rpartition("/")[2] not in all_views)
    assert "metrics" not in EpisodeRecord.__dataclass_fields__
    assert "distance_to_goal" not in all_views
    if game == "KuhnPoker":
        own_cards = {row[1]["anchor"][11] for row in log if row[1]["kind"] == "play"}
        first_texts = "".join(view.first_observation for _, view in talker(env).views)
        assert {card for card in "JQK" if f"card: {card}" in first_texts} == own_cards
        assert KuhnPoker().spec.rules in all_views


@pytest.mark.parametrize(
    ("reply", "tag", "text", "tagged", "reason"),
    [
        ("so <remark>go</remark>", "remark", "go", True, None),
        ("<think>x</think> no tag here", "remark", "no tag here", False, "invalid"),
        ("", "remark", "", False, "invalid"),
        ("<remark></remark>", "remark", "", True, "invalid"),
        (Reply("<remark>go on an", 9, 9, truncated=True), "remark", "<remark>go on an", False, "length"),
        (Reply("", overflow=True), "remark", "", False, "overflow"),
        ("<plan>left</plan>", "plan", "left", True, None),
        ('{"a": 1}', None, '{"a": 1}', True, None),
        ("  ", None, "", False, "invalid"),
        (Reply('{"a": ', 9, 9, truncated=True), None, '{"a":', True, "length"),
        ("x" * 500, None, "x" * 30, True, None),
    ],
)
def test_every_answer_reaches_the_strategy(reply, tag, text, tagged, reason):
    env = make(memory=lambda: Talker(hooks=("before_episode",), tag=tag), num_episodes=1)
    _, info = env.reset(seed=0)
    assert info["answer_tag"] == tag
    info = env.step(reply)[4]
    [(_, answer)] = env.memory.answers
    assert (answer.text, answer.tagged, answer.reason) == (text, tagged, reason)
    assert info["invalid_reason"] == reason
    assert info["penalty"] >= (0.5 if reason in ("invalid", "length") else 0.0)
    assert info["kind"] == "play"


def test_an_answer_may_be_followed_by_another_request():
    env = make(memory=lambda: Talker(follow=2, hooks=("before_episode", "after_episode")), num_episodes=2)
    log = play(env)
    kinds_found = [kind for kind, _ in kinds(log) if kind != "play"]
    before_kinds = ["before_episode", "before_episode+", "before_episode+"]
    after_kinds = ["after_episode", "after_episode+", "after_episode+"]
    assert kinds_found == [*before_kinds, *after_kinds, *before_kinds, *after_kinds]
    assert all(row[4]["memory_events"] == [{"event": "heard", "kind": row[1]["kind"]}] for row in log[:3])


def test_more_calls_than_allowed_are_an_error_that_names_the_strategy():
    env = make(memory=lambda: Talker(follow=7, hooks=("before_episode",)))
    env.reset(seed=0)
    for _ in range(8):
        info = env.step("<remark>yes</remark>")[4]
    assert info["kind"] == "play"
    env = make(memory=lambda: Talker(follow=8, hooks=("before_episode",)))
    env.reset(seed=0)
    for _ in range(7):
        env.step("<remark>yes</remark>")
    with pytest.raises(TooManyCalls, match="Memory Talker made 9 requests between two turns; the maximum is max_c"):
        env.step("<remark>yes</remark>")
    env = make(memory=lambda: Talker(follow=8, hooks=("before_episode",)), max_calls=9)
    play(env)


def test_a_strategy_that_asks_must_take_answers():
    class Deaf:
        carries_transcript = False
        begin = render = lambda self, view=None: ""
        shorten = lambda self: False  # noqa: E731
        before_episode = lambda self, episode, view: "Well?"  # noqa: E731
        after_episode = lambda self, view: None  # noqa: E731

    with pytest.raises(TypeError, match="Memory Deaf returned a request, but has neither on_answer nor on_reflection"):
        make(memory=Deaf).reset(seed=0)


class Shortest:
    """The least that is a memory: no base class, and two methods."""

    def begin(self):
        self.begun = True

    def render(self, view):
        return f"{len(view.records)} episodes"


class Derived(Memory):
    begin, render = Shortest.begin, Shortest.render


def test_a_plain_class_of_two_methods_plays_as_one_with_the_base():
    """What it lacks is added to its class once, so it can be copied and pickled like any other."""
    envs = [make(memory=kind, num_episodes=2, opponent="kuhn/nash") for kind in (Shortest, Derived)]
    assert play(envs[0], seed=3) == play(envs[1], seed=3)
    plain = envs[0].get_wrapper_attr("_calls").memory
    assert type(plain) is Shortest
    assert plain.max_requests(3) is None
    envs[0].reset(seed=4)
    revived = pickle.loads(pickle.dumps(envs[0]))
    assert play(revived, seed=5) == play(envs[1], seed=5)


def test_a_hook_on_the_instance_is_called():
    class Late(Shortest):
        def __init__(self):
            self.seen = []
            self.before_turn = lambda view: self.seen.append(view.episode)

    env = make(memory=Late, num_episodes=2, opponent="kuhn/nash")
    play(env, seed=3)
    assert set(env.get_wrapper_attr("_calls").memory.seen) == {0, 1}


def test_an_object_without_a_class_of_its_own_is_refused():
    plain = SimpleNamespace(begin=lambda: None, render=lambda view: "")
    with pytest.raises(TypeError, match="SimpleNamespace cannot be used as a Memory: write a class for it"):
        make(memory=plain)


def test_a_memory_without_begin_or_render_is_refused():
    class Half:
        def render(self, view):
            return ""

    with pytest.raises(TypeError, match="memory=Half: expected a mage_envs.Memory, got Half"):
        make(memory=Half)


def test_a_request_that_is_too_long_does_not_end_the_episode():
    env = make(memory="reflexion", num_episodes=2)
    _, info = env.reset(seed=1)
    while info["kind"] == "play":
        info = env.step("<action>fold</action>" if "fold" in info["legal_actions"] else "<action>check</action>")[4]
        if info["episode_index"] == 1:
            break
    if info["kind"] == "reflect":
        *_, info = env.step(Reply("", overflow=True))
        assert (info["invalid_reason"], info["kind"], info["penalty"]) == ("overflow", "play", 0.0)


@pytest.mark.parametrize("memory", ["amem", "memento", "react:think_action=true", "reflexion:reflect_on=always"])
def test_copies_in_mid_course_continue_alike(memory):
    env = make(memory=memory, num_episodes=3, opponent="kuhn/nash")
    expected = play(env, seed=5)
    for steps in range(len(expected)):
        prompt, info = env.reset(seed=5)
        for row in expected[:steps]:
            prompt, *_, info = env.step(row[2])
        for env_copy in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
            remaining, terminated, last_info = [], False, info
            while not terminated:
                reply = good(last_info)
                _, reward, terminated, _, last_info = env_copy.step(reply)
                remaining.append((reply, reward, json.dumps(last_info)))
            assert remaining == [(row[2], row[3], json.dumps(row[4])) for row in expected[steps:]]
        assert prompt == expected[steps][0]


def test_calls_are_credited_like_reflections_and_one_after_the_end_earns_nothing():
    """A call serves the episode that follows it: its return is that of the episode's first play step."""

    def answer(prompt):
        return good(dict(prompt.info))

    memory = lambda: Talker(hooks=("before_episode", "after_episode"))  # noqa: E731
    envs = [make(memory=memory, opponent="kuhn/nash", num_episodes=2) for _ in range(2)]
    specs = [RolloutSpec(_task(), group=0, member=member) for member in range(2)]
    trajectories = collect(envs, ScriptedGenerator(answer), specs)
    steps, returns = trajectories[0].steps, step_returns(trajectories[0])
    first_returns = {k: next(r for s, r in zip(steps, returns) if s.phase == "play" and s.episode == k) for k in (0, 1)}
    reflect_returns = [(s.episode, r) for s, r in zip(steps, returns) if s.phase == "reflect"]
    assert reflect_returns == [(0, first_returns[0]), (1, first_returns[1]), (1, first_returns[1]), (2, 0.0)]
    weights, _ = compute_advantages(trajectories, CreditConfig())
    assert weights[0] == weights[1] == [0.0] * len(steps)


def _task():
    from mage_envs import Task

    return Task("", seed=3)


@pytest.mark.parametrize("memory", ["reflection", "both", "reflexion", "amem", "memento", "none", "react"])
def test_the_length_of_the_memory_is_logged_when_it_changes(memory):
    env = make(memory=memory, opponent="kuhn/aggressive", num_episodes=3)
    lengths, real = [0], env.memory.render

    def render(view):
        lengths.append(len(real(view)))
        return real(view)

    env.memory.render = render
    log = play(env)
    lengths_logged = [
        event["characters"]
        for *_, info in log
        for event in info.get("memory_events", ())
        if event["event"] == "rendered"
    ]
    assert lengths_logged == [
        length for length, previous in zip(lengths[1:], lengths, strict=False) if length != previous
    ]
    assert bool(lengths_logged) == (memory not in ("none", "react"))


def test_old_strategies_run_unchanged():
    """A hook that returns a text, no `last`, no `on_answer`: as the documentation had them from the beginning."""

    class Old:
        carries_transcript = False

        def begin(self):
            self.heard, self.ends = [], 0

        def before_episode(self, episode, view):
            return f"Plan {episode}?"

        def after_episode(self, view, last):
            if last:
                return None
            self.ends += 1
            return "What was that?"

        def on_reflection(self, text, view):
            self.heard.append(text)

        def render(self, view):
            return " ".join(self.heard)

        def shorten(self):
            return False

    env = make(memory=Old, num_episodes=2)
    log = play(env, lambda info: good(info) if info["kind"] == "play" else "<remark>" + "x" * 3000 + "</remark>")
    assert [kind for kind, _ in kinds(log) if kind != "play"] == ["reflect"] * 3
    assert env.memory.heard == ["x" * 2000] * 3
    assert env.memory.ends == 1


def test_replies_are_parsed():
    parsed = parse_reply("<think>a <action>no</action></think> I <b>will</b>. <action> go </action> now", "action")
    assert parsed == ("I <b>will</b>. <action> go </action> now", "I <b>will</b>.", "go")
    assert parse_reply("just words", "action") == ("just words", "just words", None)
    assert parse_reply(" word ", None) == ("word", "", "word")
    assert parse_reply("", None) == ("", "", None)


@pytest.mark.parametrize("memory", ["amem", "memento", "memento:show_cases=true"])
def test_a_conversation_is_refused_with_the_reason_where_it_cannot_work(memory):
    name = type(as_memory(memory)).__name__
    with pytest.raises(
        ValueError, match=f"Memory {name} does not support context='conversation', because .* Use context='rebuilt'"
    ):
        make(memory=memory, context="conversation")


@pytest.mark.parametrize("memory", ["react", "react:think_action=true", "reflexion:reflect_on=always"])
def test_a_conversation_works_with_react_and_reflexion(memory):
    env = make("mage/TicTacToe-Meta-v0", memory=memory, context="conversation", num_episodes=2, opponent="minimax")
    log = play(env)
    firsts = [row for row in log if row[1]["fresh_chat"]]
    assert len(firsts) == 2
    assert all("You thought" not in row[0] for row in log)  # the chat itself shows it
    if memory.startswith("reflexion"):
        reflect_row = next(row for row in log if row[1]["kind"] == "reflect")
        assert "# Task" not in reflect_row[0]  # the chat before it shows the task and the attempt
        assert reflect_row[0].startswith("You look back at an attempt of your own")
        assert "1. after episode 1: learnt w" in firsts[1][0]
