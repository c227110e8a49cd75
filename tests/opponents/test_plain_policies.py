"""A class without the base class `Policy` plays everywhere as one with it, and is completed where it first appears."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pettingzoo
import pytest

from mage_envs import Policy, Turn, play_match
from mage_envs.benchmarks import PolicyAgent, evaluate, panel
from mage_envs.benchmarks.evaluation.run.elicitation import add_question
from mage_envs.benchmarks.evaluation.suites.panels import named_panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.tournaments.schedule import play_all
from mage_envs.benchmarks.tournaments.tournament_settings import Settings
from mage_envs.core import has_distribution, has_memory, is_state_policy
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.opponents import OpponentPool, RulePolicy, make_opponent, register_opponent, registry
from mage_envs.opponents.exact import NotExact, headroom, nash_conv, policy_value
from mage_envs.opponents.switching import switching
from tests.processes import ROOT

META = "mage/KuhnPoker-Meta-v0"
KUHN = KuhnPoker()
Make = Callable[[], Any]


class Short:
    """The least that is a policy: two methods and no base class. It draws one number per decision."""

    def reset(self, rng):
        self._rng = rng

    def act(self, turn):
        return turn.legal_actions[int(self._rng.random() * len(turn.legal_actions))]


class Counts:
    """Plays the first action in the first hand of a meta-episode, and the last one afterwards."""

    hands = -1

    def on_meta_episode_start(self):
        self.hands = 0

    def reset(self, rng): ...

    def act(self, turn):
        return turn.legal_actions[-1 if self.hands else 0]

    def on_hand_end(self, turn):
        self.hands += 1


class Turns:
    """Plays the first and the last action in turn, from hand to hand, beginning with the last one."""

    hands = 0

    def on_meta_episode_start(self):
        self.hands = 1

    def reset(self, rng):
        self.hands += 1

    def act(self, turn):
        return turn.legal_actions[self.hands % 2 - 1]


class Leans:
    """Plays the last action three times of four, with exact probabilities that follow from the information state."""

    follows_information_state = True

    def reset(self, rng):
        self._rng = rng

    def act(self, turn):
        return turn.legal_actions[int(self._rng.random() < 0.75)]

    def distribution(self, turn):
        return dict(zip(turn.legal_actions, (0.25, 0.75), strict=True))


class Guesses(Short):
    """Believes in one opponent, whatever it sees."""

    def report_belief(self):
        return {"kuhn/rock": 1.0}


def new_class(kind: type, *bases: type) -> type:
    """A class with the attributes of `kind` that no other test has completed yet."""
    attributes = {name: value for part in kind.__mro__[-2::-1] for name, value in vars(part).items()}
    return type(kind.__name__, bases, {k: v for k, v in attributes.items() if k not in ("__dict__", "__weakref__")})


def play(env: gym.Env[Any, Any], seeds: int = 6) -> list[tuple[Any, ...]]:
    """What a learner who always takes the last action sees in the first meta-episodes."""
    rows = []
    for seed in range(seeds):
        observation, info = env.reset(seed=seed)
        done = False
        while not done:
            observation, reward, done, _, info = env.step(f"<action>{info['legal_actions'][-1]}</action>")
            rows.append((observation, reward, done, info["private"].get("opponent")))
    return rows


def play_meta_episodes(make: Make) -> Any:
    return play(gym.make(META, opponent=make(), memory="history", num_episodes=3))


def play_pool(make: Make) -> Any:
    pool = OpponentPool([(make(), 1.0), ("kuhn/rock", 1.0)])
    rows = play(gym.make(META, opponent=pool, memory="none", num_episodes=3))
    assert {row[3] for row in rows} > {"kuhn/rock"}
    return rows


def play_registered(make: Make) -> Any:
    register_opponent("plain/registered", games=["KuhnPoker"])(make)
    return play(gym.make(META, opponent="plain/registered", memory="none", num_episodes=3))


def play_switched(make: Make) -> Any:
    """As the first and as the second part, next to a policy with the base."""
    rock = make_opponent("kuhn/rock", KUHN)
    switches = switching(make(), rock, 1), switching(rock, make(), 1)
    return [play(gym.make(META, opponent=policy, memory="none", num_episodes=3)) for policy in switches]


def play_vector(make: Make) -> Any:
    envs = gym.make_vec("mage/KuhnPoker-v0", num_envs=2, opponent=make(), seat="first")
    texts, _ = envs.reset(seed=0)
    rows = [tuple(texts)]
    for _ in range(12):
        texts, rewards, *_ = envs.step(["check", "check"])
        rows.append((*texts, *rewards))
    envs.close()
    return rows


def play_hands(make: Make) -> Any:
    return play_match(KUHN, [make(), make()], np.random.default_rng(1), 40).returns.tolist()


def play_pettingzoo(make: Make) -> Any:
    env = pettingzoo.make("aec", "mage/KuhnPoker-v0")
    env.reset(seed=3)
    policies = {agent: make() for agent in env.agents}
    for policy in policies.values():
        policy.reset(np.random.default_rng(2))
    rows = []
    for agent in env.agent_iter():
        observation, reward, over, _, info = env.last()
        rows.append((agent, observation["text"], reward))
        turn = Turn.from_info(info, observation["text"])
        env.step(None if over else env.unwrapped.action_names.index(policies[agent].act(turn)))
    return rows


def play_agent(make: Make) -> Any:
    agent = PolicyAgent(lambda game: make(), "plain")
    options = {"num_episodes": 3, "memory": "none"}
    trajectories = evaluate(agent, panel(META, ["kuhn/rock", "kuhn/maniac"], 4, 0), options)
    assert [trajectory.failure for trajectory in trajectories] == [None] * len(trajectories)
    return [trajectory.episodes for trajectory in trajectories]


def play_tournament(make: Make) -> Any:
    register_opponent("plain/contestant", games=["KuhnPoker"])(make)
    settings = Settings("KuhnPoker", ("plain/contestant", "kuhn/nash"), games=6, episodes=3, imports=())
    pairings = play_all(settings).values()
    return [
        (pairing.returns.tolist(), None if pairing.exact is None else pairing.exact.tolist()) for pairing in pairings
    ]


DOORS = (
    play_meta_episodes,
    play_pool,
    play_registered,
    play_switched,
    play_vector,
    play_hands,
    play_pettingzoo,
    play_agent,
    play_tournament,
)


@pytest.fixture(autouse=True)
def restore_registry() -> Iterator[None]:
    yield
    for name in [name for name in registry._REGISTRY if name.startswith("plain/")]:
        del registry._REGISTRY[name]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", [Short, Counts, Turns, Leans])
def test_a_plain_class_plays_as_one_with_the_base(kind: type, door: Callable[[Make], Any]) -> None:
    assert door(new_class(kind)) == door(new_class(kind, Policy))


@pytest.mark.parametrize("kind", [Counts, Turns])
@pytest.mark.parametrize("door", [play_meta_episodes, play_switched, play_hands, play_agent, play_tournament])
def test_the_hooks_of_a_plain_class_are_called(kind: type, door: Callable[[Make], Any]) -> None:
    """Without its hooks, the class plays otherwise."""
    deaf = type(kind.__name__, (), {"hands": 0, "reset": kind.reset, "act": kind.act})
    assert door(new_class(kind)) != door(deaf)


@pytest.mark.parametrize("bases", [(), (Policy,)])
def test_a_plain_class_with_a_distribution_is_exact(bases: tuple[type, ...]) -> None:
    """Its exact values are those of the same rule as a `RulePolicy`, and a tournament knows them."""
    make, rule = new_class(Leans, *bases), RulePolicy(lambda turn: Leans().distribution(turn))
    values, expected = (
        headroom(KUHN, OpponentPool([(policy, 1.0), ("kuhn/rock", 1.0)]), episodes=2) for policy in (make(), rule)
    )
    assert 0 < values.blind < values.known
    assert values.to_json() | {"seconds": 0} == expected.to_json() | {"seconds": 0}
    assert nash_conv(KUHN, [make(), make()]) == nash_conv(KUHN, [rule, rule]) > 0
    assert policy_value(KUHN, [make(), "kuhn/rock"]) == policy_value(KUHN, [rule, "kuhn/rock"])
    assert None not in play_tournament(make)[0]
    policy = make_opponent(make(), KUHN)
    assert (has_distribution(policy), has_memory(policy), is_state_policy(policy)) == (True, False, True)


@pytest.mark.parametrize(("kind", "reason"), [(Short, "has no distribution"), (Counts, "remembers earlier hands")])
def test_a_plain_class_without_exact_play_has_no_exact_values(kind: type, reason: str) -> None:
    policy = new_class(kind)()
    with pytest.raises(NotExact, match=f"Opponent '{kind.__name__}' {reason}"):
        headroom(KUHN, OpponentPool([(policy, 1.0)]), episodes=2)
    policy = make_opponent(policy, KUHN)
    assert (has_distribution(policy), is_state_policy(policy)) == (False, False)
    assert has_memory(policy) == (kind is Counts)
    with pytest.raises(TypeError, match=rf"^{kind.__name__} has no distribution\(turn\)\.$"):
        policy.distribution(Turn(0, "", ("check",), ""))


def test_a_declaration_without_a_distribution_is_void() -> None:
    """`act` is called, because there are no probabilities to draw from."""
    declared = type("Short", (), {**vars(new_class(Short)), "follows_information_state": True})
    assert not is_state_policy(make_opponent(declared(), KUHN))
    assert play_meta_episodes(declared) == play_meta_episodes(new_class(Short))


def test_a_module_and_class_need_no_base() -> None:
    """By name, a class is imported again in each process."""
    policy = make_opponent(f"{__name__}:Leans", KUHN)
    assert type(policy) is Leans
    assert (policy.model_calls(), policy.report_belief()) == ((), {})
    assert not isinstance(policy, Policy)


def test_only_a_policy_that_reports_a_belief_is_asked_for_it() -> None:
    setting = Setting(named_panel("kuhn-paper"), "two", {})
    assert add_question(setting, PolicyAgent(lambda game: new_class(Guesses)(), "guesses")).options["elicit"]
    with pytest.raises(ValueError, match=r"^short states no belief: it has no method report_belief. Remove --elicit.$"):
        add_question(setting, PolicyAgent(lambda game: new_class(Short)(), "short"))


def test_hooks_on_the_instance_are_called() -> None:
    calls: list[str] = []
    policy = new_class(Short)()
    policy.on_meta_episode_start = lambda: calls.append("start")
    policy.on_hand_end = lambda turn: calls.append(f"end {turn.episode}")
    policy.model_calls = lambda: [{"calls": len(calls)}]
    other = type(policy)()
    env = gym.make(META, opponent=policy, memory="none", num_episodes=2)
    play(env, seeds=2)
    assert calls == ["start", "end 0", "end 1"] * 2
    assert has_memory(make_opponent(policy, KUHN))
    # Another instance of the class has the defaults.
    assert not has_memory(make_opponent(other, KUHN))
    play(gym.make(META, opponent=other, memory="none"), seeds=1)
    assert len(calls) == 6


def test_a_policy_that_forwards_all_attributes_keeps_the_inner_hooks() -> None:
    """A proxy has each method by `__getattr__`, so nothing is added that would hide it."""

    class Proxy:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__") or name == "inner":
                raise AttributeError(name)
            return getattr(self.inner, name)

    inner = new_class(Counts, Policy)()
    assert play_meta_episodes(lambda: Proxy(inner))[0] == play_meta_episodes(new_class(Counts))[0]
    assert inner.hands == 3
    assert is_state_policy(make_opponent(Proxy(new_class(Leans, Policy)()), KUHN))


def test_a_completed_parent_does_not_hide_a_hook() -> None:
    """The defaults of a class are found before the hook of another parent, whichever was seated first."""
    parent = new_class(Short)
    make_opponent(parent(), KUHN)
    hook = type("Hook", (), {"on_hand_end": Counts.on_hand_end, "hands": 0})
    both = type("Both", (parent, hook), {})
    policy = both()
    play(gym.make(META, opponent=policy, memory="none", num_episodes=3), seeds=1)
    assert policy.hands == 3
    assert not has_memory(make_opponent(parent(), KUHN))


@pytest.mark.parametrize(
    "seat",
    [
        lambda policy: make_opponent(policy, KUHN),
        lambda policy: gym.make(META, opponent=policy),
        lambda policy: play_match(KUHN, [policy, policy], np.random.default_rng(0)),
        lambda policy: PolicyAgent(lambda game: policy, "plain").generator(KUHN),
    ],
)
def test_an_object_without_a_class_of_its_own_is_refused(seat: Callable[[Any], Any]) -> None:
    policy = SimpleNamespace(reset=lambda rng: None, act=lambda turn: turn.legal_actions[0])
    with pytest.raises(TypeError, match=r"^SimpleNamespace cannot be used as a Policy: write a class for it\."):
        seat(policy)


def test_a_policy_without_reset_or_act_is_refused() -> None:
    class Half(Policy):
        def act(self, turn: Turn) -> str:
            return ""

    with pytest.raises(TypeError, match="abstract"):
        Half()
    with pytest.raises(TypeError, match="must be a policy with reset"):
        make_opponent(SimpleNamespace(act=lambda turn: ""), KUHN)
    with pytest.raises(TypeError, match="A pool holds names and policies"):
        OpponentPool([(Short, 1.0)])


@pytest.mark.parametrize("switches", [False, True])
def test_a_pickled_environment_plays_on_in_another_process(tmp_path: Path, switches: bool) -> None:
    """There, no door has completed the class of the opponent."""
    opponent = switching(Counts(), Counts(), 1) if switches else Counts()
    env = gym.make(META, opponent=opponent, memory="none", num_episodes=2)
    env.reset(seed=0)
    (tmp_path / "env").write_bytes(pickle.dumps(env))
    program = (
        "import pickle, sys\n"
        "env = pickle.loads(open(sys.argv[1], 'rb').read())\n"
        "from tests.opponents import test_plain_policies as tests\n"
        "print(tests.play(env, seeds=3))\n"
    )
    played = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "env"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert played.stdout.strip() == repr(play(env, seeds=3))
