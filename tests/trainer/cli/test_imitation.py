"""Imitation: which tokens are learned, that the player is, and what cannot be imitated."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import pytest

from mage_envs.cli.program import main
from mage_envs.text.generation import Message, Prompt
from mage_envs.trainer.backends.local_model import HFGenerator, Sampling
from mage_envs.trainer.backends.model_folder import load_tokenizer
from mage_envs.trainer.backends.tiny import byte_tokenizer
from mage_envs.trainer.backends.tokens import ChatTokenizer
from mage_envs.trainer.backends.weights import load_model
from mage_envs.trainer.cli.imitation import RANDOM, Imitation, _examples
from mage_envs.trainer.cli.words_model import IMITATION, words_model
from mage_envs.trainer.config.run_settings import RunSettings
from tests.packages import mark_params

KUHN = "mage/KuhnPoker-Meta-v0"


def settings(**changes: object) -> RunSettings:
    options = {"env_id": KUHN, "prompt_style": "words", "memory": "history", "context": "conversation", **changes}
    return RunSettings(**options)  # type: ignore[arg-type]


def test_of_a_policy_the_replies_alone_are_learned() -> None:
    """In a conversation all of them are in one row; in fresh prompts each has a row of its own."""
    tokenizer = byte_tokenizer()
    for context, rows in (("conversation", 1), ("rebuilt", 3)):
        config = settings(context=context, opponents="kuhn/maniac", seat="first")
        examples = _examples("policy:kuhn/rock", config, ChatTokenizer(tokenizer), 4)
        replies = [tokenizer.decode([example.ids[target] for target in example.targets]) for example in examples]
        # A rock checks, and folds or calls after a bet; the end of each reply is learned, too.
        assert len(examples) >= 4 * rows
        text = " ".join(replies)
        assert "check" in text
        assert not {"episode", "jack", "queen", "king", "first"} & set(text.replace("<", " ").split())


def test_what_a_policy_says_in_place_of_a_reflection_is_not_learned() -> None:
    tokenizer = byte_tokenizer()
    examples = _examples(
        "policy:kuhn/rock", settings(prompt_style="plain", memory="reflection"), ChatTokenizer(tokenizer), 3
    )
    learned = "".join(tokenizer.decode([example.ids[target] for target in example.targets]) for example in examples)
    all_text = "".join(tokenizer.decode(list(example.ids)) for example in examples)
    assert "No remark." in all_text
    assert "remark" not in learned
    assert learned.count("<action>") == learned.count("</action>") >= 9


def test_of_random_play_the_whole_chat_is_learned() -> None:
    [example] = _examples(RANDOM, settings(), ChatTokenizer(byte_tokenizer()), 1)
    assert example.targets == tuple(range(1, len(example.ids)))


@pytest.mark.parametrize(("player", "move"), mark_params([("kuhn/maniac", "bet"), ("kuhn/passive", "check")], step=2))
def test_the_player_is_learned_and_is_a_function_of_the_seed(player: str, move: str, tmp_path: Path) -> None:
    config = settings(opponents="kuhn/nash")
    folders = [
        Path(words_model(tmp_path / str(run), config, Imitation([f"policy:{player}"], 40, **IMITATION)))
        for run in range(2)
    ]
    weights = [load_model(folder).lm_head.weight for folder in folders]  # type: ignore[union-attr]
    assert weights[0].equal(weights[1])
    generator = HFGenerator(load_model(folders[0]), ChatTokenizer(load_tokenizer(folders[0])), Sampling(1))
    for seed in range(6):
        _, info = gym.make(KUHN, style="words", memory="history", seat="first").reset(seed=seed)
        prompt = Prompt(tuple(Message(**message) for message in info["messages"]))
        scores = dict(zip(("check", "bet"), generator.score([prompt], [["check", "bet"]])[0], strict=True))
        assert max(scores, key=lambda name: scores[name]) == move
        assert scores[move] > -0.2


def test_replies_of_a_run_are_the_same_examples(tmp_path: Path) -> None:
    """The records of a policy's run hold the replies that it would be imitated by."""
    words = ["eval", "policy:kuhn/maniac", "--env", KUHN, "--opponents", "kuhn/rock", "--rows", "3"]
    words += ["--game-option", "style=words", "--memory", "history", "--no-baselines", "--out", str(tmp_path / "run")]
    assert main(words) == 0
    assert main(["export", str(tmp_path / "run"), "--to", "sft", "--out", str(tmp_path / "sft.jsonl")]) == 0
    tokenizer = byte_tokenizer()
    examples = _examples(f"@{tmp_path / 'sft.jsonl'}", settings(), ChatTokenizer(tokenizer), 1)
    replies = {tokenizer.decode([example.ids[target] for target in example.targets]) for example in examples}
    assert len(examples) >= 18
    assert {reply.partition("<")[0].strip() for reply in replies} <= {"bet", "call"}
    assert all(example.targets[-1] == len(example.ids) - 1 for example in examples)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"prompt": [], "completion": []}', "{", '{"prompt": 3}'])
def test_a_file_of_another_form_is_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "sft.jsonl").write_text(text)
    with pytest.raises(ValueError, match="mage export RUN --to sft") as error:
        _examples(f"@{tmp_path / 'sft.jsonl'}", settings(), ChatTokenizer(byte_tokenizer()), 1)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("player", "says"),
    [
        ("kuhn/nash", "must be scripted:random, policy:NAME of a registered opponent, or @FILE"),
        ("@nowhere.jsonl", "nowhere.jsonl: No such file or directory; check the path."),
        ("policy:kuhn/nsh", "Did you mean 'kuhn/nash'?"),
        ("policy:tictactoe/pattern-1", "plays TicTacToe, not KuhnPoker"),
    ],
)
def test_what_cannot_be_imitated_is_one_line(
    player: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--model", "words", "--env_id", KUHN, "--output_dir", str(tmp_path / "run"), "--use_cpu", "true"]
    assert main([*words, "--max_rollouts", "1", "--imitate", player, "--imitate_steps", "1"]) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("mage: ")
    assert says in line
