"""Training and evaluation use the same prompts: ends of turns, template arguments, system prompt, limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trl
from peft import LoraConfig
from transformers import AutoTokenizer

from mage_envs.text.generation import Completion, Message, Prompt
from mage_envs.trainer.backends.play_settings import PlaySettings, load_generator
from mage_envs.trainer.backends.tiny import byte_tokenizer, general_tiny, save_tiny, tiny_model
from mage_envs.trainer.backends.tokens import ChatTokenizer, PromptFormat
from mage_envs.trainer.config.run_settings import RunSettings
from mage_envs.trainer.runs.model_card import model_card
from mage_envs.trainer.trl import trl_compat
from tests.trainer.tiny_runs import make_config, make_trainer, save_model


def base_model(folder: Path) -> str:
    """A model like a base model: its tokenizer's EOS is not the token with which its template ends a turn."""
    tokenizer = byte_tokenizer()
    tokenizer.eos_token = "<|endoftext|>"
    model = tiny_model(len(tokenizer), hidden=16, layers=1, heads=2, initializer_range=0.02, max_positions=32_768)
    return save_tiny(folder, model, tokenizer)


def test_base_models_stop_at_the_end_of_a_turn(tmp_path: Path) -> None:
    trainer: Any = make_trainer(base_model(tmp_path / "model"), tmp_path, None, max_completion_length=256)
    tokens = trainer.player.generator.tokens
    assert tokens.turn_end_id != tokens.tokenizer.eos_token_id
    assert tokens.end_ids == {tokens.turn_end_id, tokens.tokenizer.eos_token_id}
    prompts = [list(tokens.encode(Prompt((Message("user", "Bet?"),))))] * 16
    replies, _ = trl_compat.generate_ids(trainer, prompts, np.arange(16, dtype=np.uint64))
    assert any(reply[-1] == tokens.turn_end_id for reply in replies)
    assert not any(tokens.turn_end_id in reply[:-1] for reply in replies)


def test_a_saved_model_reads_the_prompts_that_it_was_trained_on(tmp_path: Path) -> None:
    (tmp_path / "system.txt").write_text("You play poker.\n")
    changes: dict[str, Any] = {
        "max_completion_length": 8,
        "max_prompt_length": 3000,
        "chat_template_kwargs": {"enable_thinking": False},
        "system_prompt": f"@{tmp_path / 'system.txt'}",
    }
    trainer: Any = make_trainer(general_tiny(tmp_path / "tiny"), tmp_path, None, **changes)
    trainer.write_model(tmp_path / "saved")
    prompt = Prompt((Message("user", "Bet?"),), seed=(0,))
    trained = trainer.player.generator.tokens.encode(prompt)
    text = trainer.processing_class.decode(trained)
    assert text.startswith("<|im_start|>system\nYou play poker.<|im_end|>\n<|im_start|>user\nBet?")
    assert text.endswith("<think>\n\n</think>\n\n")
    for cached in (False, True):
        generator: Any = load_generator(tmp_path / "saved", cached=cached)[0]
        assert generator.tokens.encode(prompt) == trained
        assert generator.tokens.end_ids == trainer.player.generator.tokens.end_ids
        [long] = generator.generate([prompt._replace(messages=(Message("user", "Bet? " * 700),))])
        assert long.overflow, "the prompt limit of the training holds"
    assert PlaySettings.load(tmp_path / "saved") == trainer.play


def test_what_a_template_cannot_render_is_refused_before_training(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    with pytest.raises(ValueError, match="may not set 'tokenize', which apply_chat_template sets itself"):
        ChatTokenizer(tokenizer, PromptFormat({"tokenize": True}))
    with pytest.raises(ValueError, match=r"chat_template_kwargs\['tools'\] must be text, a number"):
        PromptFormat({"tools": [1]})  # type: ignore[dict-item]
    tokenizer.chat_template = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    with pytest.raises(ValueError, match=r"cannot render the chat \(no system role\); leave out system_prompt"):
        ChatTokenizer(tokenizer, PromptFormat(system_prompt="You play poker."))


def test_a_system_prompt_is_text_or_a_file(tmp_path: Path) -> None:
    assert RunSettings(system_prompt="Play.").system_prompt == "Play."
    assert make_config(tmp_path, system_prompt="Play.").system_prompt == "Play."
    with pytest.raises(ValueError, match=r"system_prompt='@.*missing.txt' names a file that cannot be read"):
        RunSettings(system_prompt=f"@{tmp_path / 'missing.txt'}")


@pytest.mark.parametrize("adapter", [False, True])
def test_every_saved_model_has_its_play_settings_and_a_card(tmp_path: Path, adapter: bool) -> None:
    peft = LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM") if adapter else None
    path = save_model(tmp_path / "model")
    trainer = make_trainer(path, tmp_path / "run", None, max_rollouts=1, save_strategy="steps", peft_config=peft)
    trainer.train()
    trainer.save_model(str(tmp_path / "saved"))
    for folder in (tmp_path / "saved", tmp_path / "run" / "checkpoint-2"):
        assert PlaySettings.load(folder) == trainer.play
        load_generator(folder)
        text = (folder / "README.md").read_text()
        for part in (
            "# run\n",
            '* `advantage`: `"member_mean"`',
            '* `id`: `"mage/KuhnPoker-Meta-v0"`',
            "* `hands_per_episode`: `2`",
            "* `kuhn/soft-aggressive`: `1.0`",
            "all                     success",
            "MAGEConfig(",
            "eprint = {2603.03680}",
        ):
            assert part in text
        assert "None" not in text.partition("## Command")[0]
        assert "GRPO" not in text
    trainer.create_model_card()
    assert "# run\n" in (tmp_path / "run" / "README.md").read_text()


def test_a_card_has_the_command_without_secrets(tmp_path: Path) -> None:
    config = RunSettings(output_dir=str(tmp_path))
    command = ["--model", "Qwen/Qwen3-4B", "--hub_token", "hf_abc", "--api_key=hf_abc", "--max_rollouts", "2"]
    text = model_card("x", "Qwen/Qwen3-4B", config, None, {}, command)
    assert "base_model: Qwen/Qwen3-4B\n" in text
    assert "mage train --model Qwen/Qwen3-4B --hub_token '***' '--api_key=***' --max_rollouts 2\n" in text
    assert "hf_a" not in text
    assert "No rollout was finished." in text


@pytest.mark.parametrize("name", ["qwen3", None])
def test_a_conversations_template_keeps_earlier_thoughts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str | None
) -> None:
    path = general_tiny(tmp_path / "tiny")  # its own template strips thoughts, and TRL does not know it
    if name is not None:
        tokenizer = AutoTokenizer.from_pretrained(path)
        tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja").read_text()
        tokenizer.save_pretrained(path)
    tokens_before = ChatTokenizer(AutoTokenizer.from_pretrained(path))
    assert tokens_before.reply_format.strips_thoughts
    trainer: Any = make_trainer(path, tmp_path / "run", None, max_completion_length=8)
    trainer.write_model(tmp_path / "saved")
    saved: Any = load_generator(tmp_path / "saved")[0]
    if name is None:
        assert "TRL has no other for it" in caplog.text
        assert saved.tokens.reply_format.strips_thoughts
        return
    assert "TRL's training template replaces it in the saved model." in caplog.text
    first_prompt = Prompt((Message("user", "Rules. Bet?"),))
    assert (
        tokens_before.encode(first_prompt)
        == trainer.player.generator.tokens.encode(first_prompt)
        == saved.tokens.encode(first_prompt)
    )
    reply = "<think>\nA king.\n</think>\n\n<action>bet</action>"
    sent = Completion(reply, tokens_before.encode(first_prompt), tokens_before.encode_reply(reply))
    second_prompt = Prompt(
        (*first_prompt.messages, Message("assistant", reply), Message("user", "Again?")), previous=sent
    )
    trained = trainer.player.generator.tokens.encode(second_prompt)
    assert trained == tokens_before.encode(second_prompt), "the trained ids are those of before"
    assert trained == saved.tokens.encode(second_prompt._replace(previous=None)), "as a chat API renders it"
    assert trained != tokens_before.encode(second_prompt._replace(previous=None))
