"""The opponent that is a language model: its prompts, its bad answers, and saved models by name."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from mage_envs import make_game
from mage_envs.core import Game
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.tictactoe import TicTacToe
from mage_envs.match import play_match
from mage_envs.opponents import LanguageModelPolicy, make_opponent
from mage_envs.opponents.llm.opponent import TRIES, settings_for
from mage_envs.text.generation import Completion, Prompt
from mage_envs.text.plain import Plain
from mage_envs.text.styles import as_style
from mage_envs.text.words.style import Words
from mage_envs.text.words.vocabulary import vocabulary
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.backends.tiny import save_tiny, tiny_model, tiny_tokenizer
from tests.opponents.dealing import dealt

KUHN = KuhnPoker()


class Recorder:
    """A generator that stores its prompts."""

    def __init__(self, reply: Callable[[Prompt], Completion | str]) -> None:
        self.reply = reply
        self.prompts: list[Prompt] = []

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        self.prompts += prompts
        replies = [self.reply(prompt) for prompt in prompts]
        return [Completion(reply) if isinstance(reply, str) else reply for reply in replies]


def last(prompt: Prompt) -> str:
    return f"<think>hm</think><action>{prompt.legal_actions[-1].upper()}</action>"


def test_plays_what_the_model_says_with_the_learners_prompt() -> None:
    model = Recorder(lambda prompt: prompt.legal_actions[-1].upper())
    policy = LanguageModelPolicy(model, KUHN.spec, Words(KUHN.spec), 3)
    result = play_match(KuhnPoker(), [policy, make_opponent("kuhn/maniac", KUHN)], np.random.default_rng(1), 20)
    assert set(np.abs(result.returns[:, 0])) == {2.0}  # both always bet or call
    assert policy.turns == len(model.prompts) == 20
    assert policy.invalid == policy.given_up == 0
    env = gym.make("mage/KuhnPoker-Meta-v0", seat="first", opponent="kuhn/maniac", style="words")
    observations = {env.reset(seed=seed)[0] for seed in range(40)}
    assert {prompt.messages[0].content for prompt in model.prompts} == observations


@pytest.mark.parametrize(("style", "check"), [(Plain(), "<action>check</action>"), (Words(KUHN.spec), "check")])
def test_a_hands_second_turn_shows_its_first_and_nothing_of_other_hands(style: object, check: str) -> None:
    model = Recorder(lambda prompt: check if "check" in prompt.legal_actions else check.replace("check", "call"))
    policy = LanguageModelPolicy(model, KUHN.spec, style)  # type: ignore[arg-type]
    play_match(KuhnPoker(), [policy, make_opponent("kuhn/maniac", KUHN)], np.random.default_rng(1), 5)
    texts = [prompt.messages[0].content for prompt in model.prompts]
    assert len(texts) == 10
    for number, text in enumerate(texts):
        is_second_turn = number % 2 == 1
        if isinstance(style, Words):
            assert len(text.split()) == (6 if is_second_turn else 4)  # episode 1 first J (check opp-bet)
            assert set(text.split()) <= set(vocabulary(KUHN))
        else:
            assert text.count("You answered: check") == is_second_turn


def test_sampling_is_keyed_by_the_generator_given_to_reset() -> None:
    def keys(seed: int) -> list[tuple[int, ...]]:
        model = Recorder(last)
        policy = LanguageModelPolicy(model, KUHN.spec, Plain())
        play_match(KuhnPoker(), [policy, make_opponent("kuhn/rock", KUHN)], np.random.default_rng(seed), 6)
        return [prompt.seed for prompt in model.prompts]

    assert keys(3) == keys(3) != keys(4)
    assert len(set(keys(3))) == 6


@pytest.mark.parametrize(
    "bad", ["", "bet", "<action>raise</action>", Completion("<action>bet</action>", truncated=True)]
)
def test_after_three_bad_answers_the_action_is_drawn_and_counted(bad: Completion | str) -> None:
    model = Recorder(lambda prompt: bad)
    policy = LanguageModelPolicy(model, KUHN.spec, Plain())
    result = play_match(KuhnPoker(), [policy, make_opponent("kuhn/passive", KUHN)], np.random.default_rng(1), 200)
    assert policy.turns == policy.given_up == 200
    assert policy.invalid == len(model.prompts) == 200 * TRIES
    won_pots = int((result.returns[:, 0] == 1).sum())  # 1/2 bets, which passive folds to, plus 1/4 better cards
    assert 120 < won_pots < 180
    assert len({prompt.seed for prompt in model.prompts}) == len(model.prompts)
    for prompt, number in zip(model.prompts, (1, 2, 3)):
        text = prompt.messages[0].content
        assert f"Try {number} of 3." in text
        assert ("Nothing happened." in text) == (number > 1)


FALSE_FOR_AN_OPPONENT = re.compile(
    r"Answer \d|\bcounts?\b|at most|run out|the turn is spent|You play|Episode \d of|Turn \d"
)
"""Limits of a learner. An opponent has none: an invalid answer costs it one of its tries in this turn."""
TRIES_RULE = "You have 3 tries per turn. If none of them is a legal action, a random legal action is played for you."


@pytest.mark.parametrize("style", ["plain", "paper"])
@pytest.mark.parametrize("game", [KUHN, TicTacToe(), make_game("PrisonersDilemma")], ids=lambda game: game.spec.name)
def test_every_prompt_of_an_opponent_states_its_tries_and_nothing_false(game: Game, style: str) -> None:
    turn = dealt(game).turn(0)
    legal = turn.legal_actions[0]
    # The first turn fails three times, the second one once, the third one never.
    replies = iter(["?", "", "?", "<action>sing</action>", *[f"<action>{legal}</action>"] * 2])
    model = Recorder(lambda prompt: next(replies))
    settings = replace(settings_for(game.spec), history_window=9)
    policy = LanguageModelPolicy(model, game.spec, as_style(style, game.spec), settings=settings)
    policy.reset(np.random.default_rng(1))
    actions = [policy.act(turn) for _ in range(3)]
    assert actions[1:] == [legal, legal]
    no_action = "You answered: (no action inside the tags, nothing happened)"
    hand = [
        *[no_action] * 3,
        f"A random legal action was played for you: {actions[0]}",
        "You answered: sing (not a legal action, nothing happened)",
        f"You answered: {legal}",
    ]
    texts = [prompt.messages[0].content for prompt in model.prompts]
    for text, number, num_shown in zip(texts, (1, 2, 3, 1, 2, 1), (0, 1, 2, 4, 5, 6), strict=True):
        assert text.startswith(f"# Task\n{game.spec.rules} ")
        assert text.count(TRIES_RULE) == 1
        assert text.count(f"# Now\nYour turn. Try {number} of 3.\n") == 1
        match = FALSE_FOR_AN_OPPONENT.search(text.replace(game.spec.rules, ""))
        assert not match, match
        assert (
            re.findall("^(?:You answered|A random legal action was played for you): .*", text, re.M) == hand[:num_shown]
        )
        assert bool(re.search(r"^Your last .*\. Nothing happened\.$", text, re.M)) == (number > 1)


def test_turns_outside_the_window_are_mentioned_without_a_number() -> None:
    model = Recorder(lambda prompt: "<action>cooperate</action>")
    game = make_game("PrisonersDilemma")
    settings = replace(settings_for(game.spec), history_window=1)
    policy = LanguageModelPolicy(model, game.spec, Plain(), settings=settings)
    play_match(game, [policy, make_opponent("pd/all-d", game)], np.random.default_rng(1), 1)
    texts = [prompt.messages[0].content for prompt in model.prompts]
    assert ["(Earlier answers are not shown.)" in text for text in texts[:4]] == [False, False, True, True]
    assert [text.count("You answered: cooperate") for text in texts[:4]] == [0, 1, 1, 1]


def test_a_model_that_was_trained_as_a_learner_has_a_learners_prompt() -> None:
    model = Recorder(lambda prompt: "?")
    policy = LanguageModelPolicy(model, KUHN.spec, Plain(), 3)
    policy.reset(np.random.default_rng(1))
    policy.act(dealt(KUHN).turn(0))
    for prompt in model.prompts:
        text = prompt.messages[0].content
        assert "You may give at most 6 answers per episode" in text
        assert "Episode 1 of 3. Answer 1 of 6." in text
        assert "tries" not in text


def test_a_second_try_counts() -> None:
    model = Recorder(lambda prompt: "?" if prompt.seed[-1] == 0 else "<action>bet</action>")
    policy = LanguageModelPolicy(model, KUHN.spec, Plain())
    result = play_match(KuhnPoker(), [policy, make_opponent("kuhn/passive", KUHN)], np.random.default_rng(1), 10)
    assert (policy.invalid, policy.given_up) == (10, 0)
    assert result.mean[0] == 1


def test_long_prompts_are_cut_and_then_refused() -> None:
    limit = 10**9
    model = Recorder(
        lambda prompt: (
            Completion("", overflow=True) if len(prompt.messages[0].content) > limit else "<action>x</action>"
        )
    )
    policy = LanguageModelPolicy(model, KUHN.spec, Plain())
    policy.reset(np.random.default_rng(0))
    turn = dealt(KUHN).turn(0)
    policy.act(turn)
    limit = len(model.prompts[1].messages[0].content) - 1
    num_prompts = len(model.prompts)
    policy.act(turn)
    assert [len(p.messages[0].content) > limit for p in model.prompts[num_prompts:]].count(True) > 0
    assert policy.given_up == 2
    limit = 0
    with pytest.raises(RuntimeError, match="longer than the language model's limit"):
        policy.act(turn)


def test_a_failed_call_is_an_error() -> None:
    policy = LanguageModelPolicy(Recorder(lambda prompt: Completion("", error="timeout: 60 s")), KUHN.spec, Plain())
    policy.reset(np.random.default_rng(0))
    turn = dealt(KUHN).turn(0)
    with pytest.raises(RuntimeError, match="timeout: 60 s"):
        policy.act(turn)


# -- checkpoint:<folder> ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "demo,1"
    tokenizer = tiny_tokenizer(vocabulary(KUHN))
    save_tiny(folder, tiny_model(len(tokenizer), hidden=16, layers=1, heads=2), tokenizer)
    options = {"style": "words", "context": "conversation", "memory": "history"}
    PlaySettings("mage/KuhnPoker-Meta-v0", options, max_new_tokens=1, constrained=True).save(folder)
    return folder


def test_a_saved_model_is_an_opponent(model_folder: Path) -> None:
    name = f"checkpoint:{model_folder}"
    env = gym.make("mage/KuhnPoker-v0", opponent=name)
    returns = []
    for seed in range(30):
        _, info = env.reset(seed=seed)
        terminated, reward = False, 0.0
        while not terminated:
            _, reward, terminated, _, info = env.step(info["legal_actions"][0])
        returns.append(float(reward))
    assert set(returns) <= {-2.0, -1.0, 1.0, 2.0}
    assert info["private"]["opponent"] == name
    first_policy, second_policy = make_opponent(name, KUHN), make_opponent(name, KUHN)
    assert isinstance(first_policy, LanguageModelPolicy)
    assert isinstance(second_policy, LanguageModelPolicy)
    assert first_policy.generator is second_policy.generator, "loaded once per process"
    hands = play_match(KuhnPoker(), [first_policy, second_policy], np.random.default_rng(0), 20).returns
    assert first_policy.invalid == 0
    assert (hands == play_match(KuhnPoker(), [first_policy, second_policy], np.random.default_rng(0), 20).returns).all()
    os.utime(model_folder / "mage.json", ns=(2**61, 2**61))
    reloaded_policy = make_opponent(name, KUHN)
    assert isinstance(reloaded_policy, LanguageModelPolicy)
    assert reloaded_policy.generator is not first_policy.generator, "saved anew, loaded anew"


def test_errors_of_saved_models(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder"):
        make_opponent(f"checkpoint:{tmp_path}/nothing", KUHN)
    with pytest.raises(FileNotFoundError, match="holds no mage.json"):
        make_opponent(f"checkpoint:{tmp_path}", KUHN)
    (tmp_path / "mage.json").write_text('{"env_id": "mage/KuhnPoker-Meta-v0", "temprature": 1}')
    with pytest.raises(ValueError, match="unknown key 'temprature'. Did you mean 'temperature'?"):
        make_opponent(f"checkpoint:{tmp_path}", KUHN)
    with pytest.raises(ValueError, match="was trained on KuhnPoker and does not play TicTacToe"):
        make_opponent(f"checkpoint:{model_folder}", TicTacToe())
    with pytest.raises(ValueError, match="needs folder"):
        make_opponent("checkpoint", KUHN)


def test_without_torch_the_error_says_what_to_install(model_folder: Path) -> None:
    script = f"""
import sys
sys.modules["transformers"] = None
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.opponents import make_opponent
try:
    make_opponent("checkpoint:{model_folder}", KuhnPoker())
except ImportError as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "transformers" in out
    assert out.strip().endswith('Install it with: pip install "mage-envs[train]"')
