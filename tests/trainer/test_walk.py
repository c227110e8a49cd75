"""`TableWalk` against the `MetaEpisode` it stands for: the same prompts and trajectories, byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mage_envs.core import Task
from mage_envs.env import TextGameEnv
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.text.generation import Completion, Prompt
from mage_envs.text.prompts import Prose
from mage_envs.text.styles import STYLES
from trainer.rollout import RolloutSpec, collect
from trainer.trajectory import Trajectory
from wrappers import MetaEpisode
from wrappers.make import SeatedOpponents, make_meta_env
from wrappers.walk import TableWalk, fastest

Answer = Callable[[Prompt], Completion]
TALK: dict[str, Any] = {"context": "conversation", "memory": "history"}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "the demo's": ("KuhnPoker", {"style": "kuhn-words", "hands_per_episode": 3, "opponent": "pool:kuhn/demo"}),
    "cards shown": ("KuhnPoker", {"style": "kuhn-words", "reveal": "always", "num_episodes": 4}),
    "prose": ("KuhnPoker", {"hands_per_episode": 2, "opponent": "pool:kuhn/paper"}),
    "forgetful": ("KuhnPoker", {"memory": "none", "hands_per_episode": 2, "style": "kuhn-words"}),
    "forgetful prose": ("KuhnPoker", {"memory": "none", "num_episodes": 2}),
    "paper": ("KuhnPoker", {"protocol": "paper", "hands_per_episode": 2, "style": "kuhn-words"}),
    "paper prose": ("KuhnPoker", {"protocol": "paper", "opponent": "kuhn/aggressive"}),
    "replayed": ("KuhnPoker", {"deal": "replay", "hands_per_episode": 3, "style": "kuhn-words"}),
    "forfeits": ("KuhnPoker", {"on_invalid": "forfeit", "hands_per_episode": 2, "style": "kuhn-words"}),
    "sign": ("KuhnPoker", {"reward": "sign", "hands_per_episode": 2, "style": "kuhn-words"}),
    "one episode": ("KuhnPoker", {"num_episodes": 1, "opponent": "uniform"}),
    "noughts": ("TicTacToe", {"opponent": "pool:tictactoe/balanced"}),
    "noughts, early stop": ("TicTacToe", {"opponent": "uniform", "protocol": "paper", "max_turns": 9}),
    "remembers": ("KuhnPoker", {"opponent": "counting", "hands_per_episode": 2}),
}
KINDS = ("legal", "mixed", "limits")


def replier(kind: str, tag: str | None) -> Answer:
    """Answers that are a function of the sampling key; `mixed` ones are illegal now and then, `limits` cut or long."""

    def reply(prompt: Prompt) -> Completion:
        number = sum((index + 3) * (part % 1009) for index, part in enumerate(prompt.seed))
        action = prompt.legal_actions[number % len(prompt.legal_actions)]
        if kind == "mixed" and number % 7 == 0:
            action = ("nonsense", "", action.upper(), f" {action} ")[number // 7 % 4]
        text = action if tag is None else f"Well. <{tag}>{action}</{tag}>"
        return Completion(
            text, truncated=kind == "limits" and number % 9 == 0, overflow=kind == "limits" and number % 13 == 0
        )

    return reply


class Asked:
    """Answers by a function and keeps every prompt."""

    def __init__(self, reply: Answer) -> None:
        self.reply = reply
        self.prompts: list[Prompt] = []

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        self.prompts += prompts
        return [self.reply(prompt) for prompt in prompts]


def specs(count: int, first: int = 0) -> list[RolloutSpec]:
    return [RolloutSpec(Task("id", seed=first + number // 3), number // 3, number % 3) for number in range(count)]


def make(name: str, walks: bool) -> MetaEpisode:
    game, options = SETTINGS[name]
    env = make_meta_env(game, **(TALK | options))
    if not walks:
        env.walk = env
    return env


def played(name: str, kind: str, walks: bool, limit: int = 0) -> tuple[list[Trajectory], list[tuple[Any, ...]]]:
    """Two rollouts in the same environments, so that the second finds what the first has learned."""
    envs = [make(name, walks) for _ in range(4)]
    asked = Asked(replier(kind, envs[0].style.action_tag))
    found = [t for first in (0, 40) for t in collect(envs, asked, specs(60, first), reply_limit=limit)]
    assert isinstance(fastest(envs[0]), TableWalk) == walks
    return found, [tuple(prompt) for prompt in asked.prompts]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SETTINGS)
def test_equals_the_meta_episode(name: str, kind: str) -> None:
    limit = 40 if kind == "limits" else 0
    walked, real = played(name, kind, True, limit), played(name, kind, False, limit)
    for mine, true in zip(walked[0], real[0], strict=True):
        assert repr(mine) == repr(true)
    assert walked[1] == real[1]
    assert len({len(trajectory.steps) for trajectory in walked[0]}) > (name == "one episode" and kind == "legal") - 1
    if kind == "mixed":
        assert any(step.invalid_reason for trajectory in walked[0] for step in trajectory.steps)


def test_every_style_is_tried() -> None:
    assert {options.get("style", "prose") for _, options in SETTINGS.values()} == set(STYLES)


def test_the_real_one_rests_while_answers_are_legal() -> None:
    env = make("the demo's", True)
    collect([env], Asked(replier("legal", None)), specs(6))
    assert env.over
    assert env.records == []  # it never began
    collect([env], Asked(replier("mixed", None)), specs(6))
    assert env.records


@pytest.mark.parametrize(
    "options",
    [
        {"memory": "reflection"},
        {"memory": "both"},
        {"context": "rebuilt"},
        {"style": Prose},
        {"max_turns": 1},
        {"num_episodes": 2, "game": "Sokoban"},
    ],
)
def test_who_does_not_walk(options: dict[str, Any]) -> None:
    class Own(Prose):
        pass

    wanted = TALK | options
    if "style" in wanted:
        wanted["style"] = Own()
    env = make_meta_env(wanted.pop("game", "KuhnPoker"), **wanted)
    assert fastest(env) is env


def test_a_game_that_is_more_than_its_table_is_played_by_itself() -> None:
    class Loud(KuhnPoker):
        def observe(self, player: int) -> str:
            return super().observe(player).upper()

    env = MetaEpisode(TextGameEnv(Loud(), SeatedOpponents("uniform", Loud())), context="conversation", memory="history")
    assert fastest(env) is env


def test_what_cannot_be_played_is_told_alike() -> None:
    for task in (Task("id", opponent="kuhn/nobody"), Task("id", seat=5), Task("id", task_id="goal")):
        told = []
        for walks in (True, False):
            with pytest.raises((ValueError, LookupError)) as error:
                collect([make("prose", walks)], Asked(replier("legal", "action")), [RolloutSpec(task)])
            told.append(str(error.value))
        assert told[0] == told[1]


def test_a_prompt_that_is_too_long_is_shortened_alike() -> None:
    def reply(prompt: Prompt) -> Completion:
        if len(prompt.messages) > 5:
            return Completion("", overflow=True)
        return Completion(f"<action>{prompt.legal_actions[0]}</action>")

    walked, real = (Asked(reply), Asked(reply))
    mine = collect([make("prose", True)], walked, specs(3))
    true = collect([make("prose", False)], real, specs(3))
    assert repr(mine) == repr(true)
    assert walked.prompts == real.prompts
    assert any(prompt.messages[0].content.startswith("# Now") is False for prompt in walked.prompts)


@pytest.mark.parametrize("name", SETTINGS)
def test_outcomes_are_equal(name: str) -> None:
    walk, real = fastest(make(name, True)), make(name, False)
    for seed in range(10):
        walk.begin(seed)
        real.begin(seed)
        while not real.over:
            assert walk.asked == real.asked
            action = real.asked.legal_actions[seed % len(real.asked.legal_actions)]
            reply = action if real.style.action_tag is None else f"<action>{action}</action>"
            assert walk.answer(reply) == real.answer(reply)
        assert walk.over
        assert walk.results() == real.results()


def test_after_the_end_it_says_reset() -> None:
    env = make("one episode", True)
    walk = fastest(env)
    walk.begin(0)
    while not walk.over:
        walk.answer(f"<action>{walk.asked.legal_actions[0]}</action>")
    with pytest.raises(Exception, match="call reset"):
        walk.answer("<action>bet</action>")
