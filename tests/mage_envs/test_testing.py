"""`check_id` names the rule that a planted defect breaks; the contract tests show that sound environments pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy

import gymnasium as gym
import pytest

from mage_envs import FreeText
from mage_envs.testing import CHECKS, LONGEST, CheckedValues, Finding, check_id, rows_of, text_of, transcript

PLANTED = "tests.benchmarks.chaos.planted"


class Short(gym.Env):
    """One step for a reward of 1, with one defect."""

    observation_space = FreeText()
    action_space = FreeText()

    def __init__(self, reward=1.0, over=True, extra=None):
        self.reward, self.over, self.extra = reward, over, extra

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "Say anything.", {}

    def step(self, action):
        return "Thank you.", self.reward, self.over, False, deepcopy(self.extra or {})


class Forgetful(Short):
    """Has another reward each time that it is made."""

    num_made = 0

    def __init__(self):
        Forgetful.num_made += 1
        super().__init__(reward=float(Forgetful.num_made))


@pytest.fixture(autouse=True)
def _register_probes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Forgetful, "num_made", 0)
    ids = {"SayNumber": f"{PLANTED}:make_say_number", "Endless": f"{PLANTED}:Endless"}
    ids |= {name: f"{__name__}:{name}" for name in ("Short", "Forgetful")}
    for name, entry_point in ids.items():
        gym.register(f"tested/{name}-v0", entry_point=entry_point)
    yield
    for name in ids:
        del gym.registry[f"tested/{name}-v0"]


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("tested/SayNumber-v0", {"kind": "Number"}),
        ("tested/Short-v0", {}),
        ("mage/KuhnPoker-v0", {"opponent": f"{PLANTED}:Sound"}),
    ],
)
def test_a_sound_environment_passes(env_id: str, options: dict) -> None:
    check_id(env_id, **options)


@pytest.mark.parametrize(
    ("check", "opponent", "says"),
    [
        ("order", "Remembers", "after another episode, the same seed and replies gave a different one: row "),
        ("interleaving", "Shares", "beside a second environment, the same seed and replies gave a different episode:"),
        ("copies", "Uncopied", "(a deepcopy|the original beside its copies), after . replies, continued differently: "),
    ],
)
def test_an_opponent_with_a_defect_is_found(check: str, opponent: str, says: str) -> None:
    options = {"opponent": f"{PLANTED}:{opponent}", "disable_env_checker": True}

    def check_seeds() -> None:
        for seed in range(20):
            CHECKS[check](lambda: CheckedValues(gym.make("mage/KuhnPoker-v0", **options)), seed)

    with pytest.raises(Finding, match=f"^{says}"):
        check_seeds()


@pytest.mark.parametrize(
    ("check", "env_id", "options", "error", "says"),
    [
        ("play", "SayNumber", {"kind": "NotANumber"}, Finding, "the return of a hand is nan"),
        (
            "play",
            "SayNumber",
            {"kind": "TooMuch"},
            Finding,
            r"return of a hand is (5|10)\.0; the facts say -1\.0 to 1\.0",
        ),
        ("play", "Short", {"reward": math.inf}, Finding, "the reward is inf"),
        ("play", "Short", {"over": 1}, Finding, "terminated and truncated must be bools, got 1 and False"),
        ("play", "Endless", {"says": 7}, Finding, "the observation 7 is not in the observation space"),
        ("fuzz", "SayNumber", {"kind": "Trusting"}, ValueError, "Exceeds the limit|invalid literal"),
        ("fuzz", "Endless", {}, Finding, f"an episode did not end within {LONGEST} replies"),
    ],
)
def test_an_environment_with_a_defect_is_found(
    check: str, env_id: str, options: dict, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        CHECKS[check](lambda: CheckedValues(gym.make(f"tested/{env_id}-v0", disable_env_checker=True, **options)), 0)


@pytest.mark.parametrize(
    ("env_id", "options", "says"),
    [
        ("Forgetful", {}, r"gym\.make\(env\.spec\) made another environment: row 1 has .* 3\.0, .* of .* 1\.0, "),
        ("Endless", {}, f"an episode did not end within {LONGEST} replies"),
        # Raised by Gymnasium, without a message.
        ("Short", {"extra": {"episode": {}}}, "^$"),
    ],
)
def test_what_check_id_alone_finds(env_id: str, options: dict, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_id(f"tested/{env_id}-v0", **options)


def test_a_transcript_has_one_row_per_reset_and_step() -> None:
    env = gym.make("tested/Short-v0")
    assert list(rows_of(env, 3)) == ['["Say anything.", {}]', '["Thank you.", 1.0, true, false, {}]']
    assert transcript(env, 3) == 2 * list(rows_of(env, 3))


def test_texts_show_neither_addresses_nor_the_order_of_sets() -> None:
    assert text_of({"a": [1, (2.0, None)], "b": {"y", "x"}}) == r'{"a": [1, [2.0, null]], "b": ["\"x\"", "\"y\""]}'
    assert text_of(object()) == '"object"'
