"""`check_id`: contract tests of a text environment, for authors of games, opponents and memories.

For example::

    from mage_envs.testing import check_id

    check_id("mage/WaterFireWood-Meta-v0", opponent="wfw/cycle")

A broken rule raises an AssertionError that names it. `mage check` runs the same checks with many seeds, in
processes that may hang or die.
"""

from __future__ import annotations

import json
import math
import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import cycle, zip_longest
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics

from mage_envs.core import BY_THE_RULES, Game, GameSpec, hand_results
from mage_envs.info import legal_actions
from mage_envs.related import Related
from mage_envs.tree import ImperfectRecall, check_observations, is_enumerable, tree_of

Env = gym.Env[Any, Any]
Make = Callable[[], Env]
"""Function that makes a new environment."""
Check = Callable[[Make, int], None]
"""Function of (make, seed) that raises `Finding` if a rule is broken."""
Reply = Callable[[dict[str, Any], np.random.Generator], str]
"""Function from `info` and a random generator to the reply to a prompt."""
GARBAGE = (
    "",
    " ",
    "\n\t\r",
    "\x00\x01\x7f",
    "<action>",
    "</action>",
    "<action></action>",
    "</think>",
    "<think>",
    "<action>\u202e\U0001f600</action>",
    "\ud800",
    "İıſ<ACTION>K</AcTiOn>",
    "action",
    "{}",
    "%s%n",
    "a" * 100_000,
    "<action>" * 20_000,
    "</think>" * 20_000,
    "<action>bet</action>" * 5_000,
    "1" * 5000,
    "(0, 0)",
    "(9, 9)",
)
"""Possible replies of a model, none of which may raise."""
ODD = (
    *("²", "٣", "ﬁ", "1_0", "nan", "inf", "-1", "1e999", "9" * 40, "0x1"),
    *("None", "[]", "(" * 3000, "(0, 0, 0)", "\u0000"),
)
"""Replies that parsers often accept by mistake: odd numbers, Python literals, deep brackets and a NUL."""
ALONE, SPOILING = "alone", "spoiling"
LONGEST = 1000
"""Limit of replies within which an episode must end."""
MAX_FUZZED = 100
"""Limit of episodes per seed in the fuzz check."""
MAX_COMPARED = 50_000
"""Maximum positions of a tree whose observations are all compared. In a larger tree, a sample is."""
SEED = 7
"""Seed of `check_id`."""


class Finding(AssertionError):
    """A broken rule; the message is one line."""


def check_id(env_id: str, **options: Any) -> None:
    """Check the environment that `gym.make(env_id, **options)` returns."""
    env = gym.make(env_id, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # check_env warns if a space is not a Box, and text spaces never are.
        warnings.filterwarnings("ignore", message=".*For Box (action|observation) spaces.*")
        # A meta-episode is a wrapper by design.
        warnings.filterwarnings("ignore", message=".*is different from the unwrapped version.*")
        check_env(bare(env), skip_render_check=True)
    _check_spec(env)
    _check_statistics(env)
    _check_hidden_fact(env)
    for check in CHECKS.values():
        check(lambda: CheckedValues(gym.make(env_id, disable_env_checker=True, **options)), SEED)


def bare(env: Env) -> Env:
    """Return the environment without the checkers that `gym.make` adds."""
    while isinstance(env, OrderEnforcing | PassiveEnvChecker):
        env = env.env
    return env


class CheckedValues(gym.Wrapper[Any, Any, Any, Any]):
    """Wrapper that checks the values that `reset` and `step` return. They raise Finding if a check fails."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._spec: GameSpec | None = env.get_wrapper_attr("game_spec") if env.has_wrapper_attr("game_spec") else None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and check the observation and the info."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._check(observation, info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step the environment and check all returned values."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._check(observation, info)
        if not math.isfinite(float(reward)):
            raise Finding(f"the reward is {reward}")
        if not isinstance(terminated, bool) or not isinstance(truncated, bool):
            raise Finding(f"terminated and truncated must be bools, got {terminated!r} and {truncated!r}")
        return observation, reward, terminated, truncated, info

    def _check(self, observation: Any, info: Mapping[str, Any]) -> None:
        if not self.observation_space.contains(observation):
            raise Finding(f"the observation {_shorten(observation)} is not in the observation space")
        if self._spec and not isinstance(info.get("private"), dict):
            raise Finding(f"info['private'] must be a dict, got {info.get('private')!r}")
        for result in hand_results(info):
            value = result.value
            if not math.isfinite(value):
                raise Finding(f"the return of a hand is {value}")
            spec = self._spec
            # The spec bounds only the returns that the rules produce, not those of hands that were cut off.
            if spec and result.ended_by == BY_THE_RULES and not spec.min_return <= value <= spec.max_return:
                raise Finding(f"the return of a hand is {value}; the facts say {spec.min_return} to {spec.max_return}")


# -- seeded episodes -------------------------------------------------------------------------------------------


def sample_reply(info: dict[str, Any], rng: np.random.Generator) -> str:
    """Return a reflection in phase `reflect`, else a legal action, or an illegal one with probability 0.1."""
    legal = legal_actions(info)
    if info.get("phase") == "reflect":
        text = "watch the bets"
    else:
        text = legal[int(rng.integers(len(legal)))] if legal and rng.random() < 0.9 else "nonsense"
    tag = info.get("answer_tag")
    return f"<{tag}>{text}</{tag}>" if tag else text


class FuzzedReplies:
    """Replies that alternate at random between legal actions and odd texts, alone or mixed into a legal action.

    Half of the replies are legal, so that the episode makes progress. `left` is empty when every text was sent.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        texts = (*GARBAGE, *ODD)
        self.left = [(texts[index], way) for index in rng.permutation(len(texts)) for way in (ALONE, SPOILING)]

    def __call__(self, info: dict[str, Any], rng: np.random.Generator) -> str:
        if not self.left or rng.random() < 0.5:
            return sample_reply(info, rng)
        text, way = self.left.pop()
        if way == SPOILING:
            legal = legal_actions(info) or ("x",)
            action = legal[int(rng.integers(len(legal)))]
            cut = int(rng.integers(len(action) + 1))
            ways = (
                action.upper(),
                action[::-1],
                action * 50,
                action + text[:50],
                text[:50] + action,
                action[:cut] + text[:9] + action[cut:],
            )
            text = ways[int(rng.integers(len(ways)))]
        tag = info.get("answer_tag")
        return f"<{tag}>{text}</{tag}>" if tag and rng.random() < 0.7 else text


def rows_of(env: Env, seed: int, reply: Reply = sample_reply) -> Iterator[str]:
    """Play an episode and yield one comparable text for `reset` and for each step.

    Args:
        seed: Seed of the environment and of the replies.
        reply: Function that returns the reply to a prompt.

    Raises:
        Finding: If the episode does not end within `LONGEST` replies.
    """
    rng = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed)
    yield text_of((observation, info))
    yield from map(text_of, rest_of(env, info, rng, reply))


def rest_of(
    env: Env, info: dict[str, Any], rng: np.random.Generator, reply: Reply = sample_reply
) -> Iterator[tuple[Any, ...]]:
    """Play the rest of an episode that was already reset, and yield what each step returns.

    Args:
        env: The environment, after `reset` or some steps.
        info: The last `info` that the environment returned.
        rng: Source of randomness of the replies.
        reply: Function that returns the reply to a prompt.

    Raises:
        Finding: If the episode does not end within `LONGEST` replies.
    """
    for _ in range(LONGEST):
        observation, reward, terminated, truncated, info = env.step(reply(info, rng))
        yield observation, float(reward), terminated, truncated, info
        if terminated or truncated:
            return
    raise Finding(f"an episode did not end within {LONGEST} replies")


def transcript(env: Env, seed: int, episodes: int = 2) -> list[str]:
    """Return the rows of consecutive episodes. The second one shows if the first one left any state behind.

    Args:
        seed: Seed of the first episode and of its replies. Each later episode adds 1.
    """
    return [row for episode in range(episodes) for row in rows_of(env, seed + episode)]


def require_equal(rows: Sequence[str], expected: Sequence[str], label: str) -> None:
    """Raise Finding if the rows differ from the expected ones.

    Args:
        expected: The rows that they must equal.
        label: Beginning of the message, which then shows the first difference.
    """
    if list(rows) == list(expected):
        return
    # A row after the last one, so that a shorter transcript differs at its end.
    actual_rows, expected_rows = [*rows, "the end"], [*expected, "the end"]
    row_index = next(
        index for index, pair in enumerate(zip(actual_rows, expected_rows, strict=False)) if pair[0] != pair[1]
    )
    actual, expected_row = actual_rows[row_index], expected_rows[row_index]
    same = next(
        (i for i, (a, b) in enumerate(zip(actual, expected_row, strict=False)) if a != b),
        min(len(actual), len(expected_row)),
    )
    # Rows may have thousands of characters, so only the surroundings of the first difference are shown.
    begin = max(0, same - 20)
    raise Finding(
        f"{label}: row {row_index} has {_shorten(actual[begin:])} instead of {_shorten(expected_row[begin:])}"
    )


def _shorten(value: Any, limit: int = 60) -> str:
    """Return the repr of a value, cut to `limit` characters."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def text_of(value: Any) -> str:
    """Return a text that is equal if the values are equal, in any process: no addresses, no order of sets."""
    # The encoder is written in C. Transcripts of long conversations have megabytes per row.
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    """Return a value that JSON has, for one that it lacks."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(map(text_of, value))
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return repr(value) if isinstance(value, bytes) else type(value).__name__


# -- checks ----------------------------------------------------------------------------------------------------


def _check_hidden_fact(env: Env) -> None:
    """Check that the first player sees nothing of a hidden fact (`Related`) before its first answer."""
    game = env.get_wrapper_attr("game") if env.has_wrapper_attr("game") else None
    if not isinstance(game, Related) or game.shows_place:
        return
    for number in range(3):
        views = []
        for fact in game.kinds_of_fact:
            state = game.series_state(np.random.default_rng(SEED), number)
            observation, next_state = text_of((state.observation(0), state.info(0))), state.after(fact)
            # Metrics are for logs; no player sees them.
            info = {name: value for name, value in next_state.info(0).items() if name != "metrics"}
            views.append(text_of((observation, next_state.observation(0), info)))
        require_equal(views, [views[0]] * len(views), f"before the first answer, task {number} shows the hidden fact")


def _check_spec(env: Env) -> None:
    """Check that the spec rebuilds the same environment, as an object and through JSON."""
    spec = env.spec
    if spec is None:
        raise Finding("the environment has no spec")
    expected = transcript(env, 3, 1)
    require_equal(transcript(gym.make(spec), 3, 1), expected, "gym.make(env.spec) made another environment")
    restored_spec = gym.envs.registration.EnvSpec.from_json(spec.to_json())
    require_equal(transcript(gym.make(restored_spec), 3, 1), expected, "the spec's JSON form made another environment")


def _check_statistics(env: Env) -> None:
    """Check that the environment does not write Gymnasium's own key of `info`, `episode`."""
    counted, rng = RecordEpisodeStatistics(env), np.random.default_rng(1)
    rewards: list[float] = []
    terminated = truncated = False
    _, info = counted.reset(seed=1)
    while not terminated and not truncated:
        if len(rewards) == LONGEST:
            raise Finding(f"an episode did not end within {LONGEST} replies")
        _, reward, terminated, truncated, info = counted.step(sample_reply(info, rng))
        rewards.append(float(reward))
    if info["episode"]["l"] != len(rewards):
        raise Finding("RecordEpisodeStatistics counts other steps")
    if not np.isclose(info["episode"]["r"], sum(rewards)):
        raise Finding("RecordEpisodeStatistics counts another return")


def plays(make: Make, seed: int) -> None:
    """Play legal and occasional illegal replies. Raise if a call raises, a return is not finite or no episode ends."""
    transcript(make(), seed)


def is_fuzzed(make: Make, seed: int) -> None:
    """Send garbage alone for an episode, then each text once, alone and inside a legal action, beside legal actions."""
    texts, fuzzed = cycle(GARBAGE), FuzzedReplies(np.random.default_rng(seed))
    _play_out(make(), seed, lambda info, rng: next(texts))
    env = make()
    # Half of the replies are legal, so one episode rarely has room for all texts.
    for episode in range(MAX_FUZZED):
        _play_out(env, seed + episode, fuzzed)
        if not fuzzed.left:
            return


def _play_out(env: Env, seed: int, reply: Reply) -> None:
    """Play an episode without its rows, whose garbage would make them large."""
    _, info = env.reset(seed=seed)
    for _ in rest_of(env, info, np.random.default_rng(seed), reply):
        pass


def forgets(make: Make, seed: int) -> None:
    """Raise Finding if an earlier episode, of this environment or another one, changes the episode of a seed."""
    expected = list(rows_of(make(), seed))
    used = make()
    # State that survives in globals shows after `make()`, state that survives in the object after `used`.
    for other_env in (make(), used):
        list(rows_of(other_env, seed + 1))
    require_equal(
        list(rows_of(used, seed)), expected, "after another episode, the same seed and replies gave a different one"
    )


def interleaves(make: Make, seed: int) -> None:
    """Raise Finding if two environments that step alternately play differently than each one alone."""
    expected = [list(rows_of(make(), seed)), list(rows_of(make(), seed + 1))]
    # rows_of is a generator that steps once per row, so zipping two of them alternates their steps.
    pairs = list(zip_longest(rows_of(make(), seed), rows_of(make(), seed + 1)))
    for separate_rows, joint_rows in zip(expected, zip(*pairs, strict=True), strict=True):
        rows = [row for row in joint_rows if row is not None]
        require_equal(
            rows, separate_rows, "beside a second environment, the same seed and replies gave a different episode"
        )


def _copy_by_pickle(env: Env) -> Env:
    copy: Env = pickle.loads(pickle.dumps(env))
    return copy


def copies(make: Make, seed: int) -> None:
    """Raise Finding if a copy made after 0 to 3 replies continues differently, or disturbs the original."""
    # A bad copy may not show at the start.
    for answers in range(4):
        env, reference = make(), make()
        _, info = env.reset(seed=seed)
        reference.reset(seed=seed)
        rng = np.random.default_rng(seed)
        for _ in range(answers):
            reply = sample_reply(info, rng)
            _, _, terminated, truncated, info = env.step(reply)
            reference.step(reply)
            if terminated or truncated:
                # An episode that ended within these replies leaves nothing to compare.
                return
        copied_envs = {
            "a deepcopy": deepcopy(env),
            "a pickle": _copy_by_pickle(env),
            "the original beside its copies": env,
        }
        expected = _rest_as_texts(reference, info, seed)
        # The copies play first, so that state they share with the original shows in the original's rows.
        for name, copied_env in copied_envs.items():
            rows = _rest_as_texts(copied_env, info, seed)
            require_equal(rows, expected, f"{name}, after {answers} replies, continued differently")


def recalls(make: Make, seed: int) -> None:
    """Raise Finding if an information state forgets what its player knew. A game without a tree passes."""
    env = make()
    game = env.get_wrapper_attr("game") if env.has_wrapper_attr("game") else None
    if not isinstance(game, Game) or not is_enumerable(game):
        return
    try:
        order = tree_of(game).order
        if len(order) <= MAX_COMPARED:
            check_observations(game.spec.name, order)
    except ImperfectRecall as error:
        raise Finding(str(error)) from error


def _rest_as_texts(env: Env, info: dict[str, Any], seed: int) -> list[str]:
    return list(map(text_of, rest_of(env, info, np.random.default_rng(seed))))


CHECKS: Mapping[str, Check] = {
    "play": plays,
    "fuzz": is_fuzzed,
    "order": forgets,
    "interleaving": interleaves,
    "copies": copies,
    "recall": recalls,
}
"""Checks of seeded episodes by their name in `mage check --check`."""
