"""The ids of every prompt are the same in training, evaluation, as an opponent, and in a snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import trl

from mage_envs.core import Task
from mage_envs.opponents import make_opponent
from mage_envs.registry import make_game
from mage_envs.text.generation import Prompt
from mage_envs.trainer import MAGETrainer
from mage_envs.trainer.backends.play_settings import load_generator
from mage_envs.trainer.backends.tiny import byte_tokenizer, save_tiny, tiny_model
from mage_envs.trainer.backends.vllm_stream import RequestSettings
from mage_envs.trainer.trl.backend_registry import chat_tokenizer
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect
from tests.packages import mark_params
from tests.trainer.tiny_runs import make_config

TEMPLATES = Path(trl.__file__).parent / "chat_templates"
QWEN, LLAMA, GEMMA = "<|im_end|>", "<|eot_id|>", "<end_of_turn>"
MODELS: dict[str, dict[str, Any]] = {
    "tiny": {},
    "qwen3, thinking": {"template": "qwen3", "chat": {"enable_thinking": True}},
    "qwen3, no thinking": {"template": "qwen3", "chat": {"enable_thinking": False}},
    "llama3": {"template": "llama3", "special": [LLAMA, "<|start_header_id|>", "<|end_header_id|>"], "end": LLAMA},
    "base with ChatML": {"eos": "<|endoftext|>"},
    "gemma": {"template": "gemma", "special": [GEMMA, "<start_of_turn>"], "end": GEMMA, "eos": "<|endoftext|>"},
}
LIMIT = 1750
"""Tokens of a prompt; the later prompts of a meta-episode are longer, and are shortened."""


def save_model_and_words(folder: Path, model: dict[str, Any]) -> str:
    tokenizer = byte_tokenizer()
    if "special" in model:
        tokenizer.add_special_tokens({"extra_special_tokens": ["<|im_start|>", *model["special"]]})
    if "template" in model:
        tokenizer.chat_template = (TEMPLATES / f"{model['template']}.jinja").read_text()
    tokenizer.eos_token = model.get("eos", model.get("end", QWEN))
    tokenizer.bos_token = "<|endoftext|>"
    weights = tiny_model(len(tokenizer), hidden=16, layers=1, heads=2, initializer_range=0.02, max_positions=32_768)
    return save_tiny(folder, weights, tokenizer)


class Recorder:
    """A generator that keeps every prompt."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator
        self.prompts: list[Prompt] = []
        self.completions: list[Any] = []

    def generate(self, prompts: Any) -> Any:
        completions = self.generator.generate(prompts)
        self.prompts += prompts
        self.completions += completions
        return completions


@pytest.mark.parametrize("backend", ["trl", "cached"])
@pytest.mark.parametrize("context", ["rebuilt", "conversation"])
@pytest.mark.parametrize("name", mark_params(MODELS, step=3))
def test_all_of_them_read_the_same_ids(name: str, context: str, backend: str, tmp_path: Path) -> None:
    model = MODELS[name]
    options = {"context": context, "memory": "history", "num_episodes": 3, "max_turns": 2, "reveal": "always"}
    config = make_config(
        tmp_path / "run",
        backend=backend,
        max_completion_length=8,
        max_prompt_length=LIMIT,
        chat_template_kwargs=model.get("chat"),
    )
    env_id = "mage/KuhnPoker-Meta-v0"
    trainer = MAGETrainer(
        save_model_and_words(tmp_path / "model", model),
        config,
        lambda: gym.make(env_id, disable_env_checker=True, **options),
        {"kuhn/nash": 1.0},
    )
    recorder = Recorder(trainer.player.generator)
    env = gym.make(env_id, disable_env_checker=True, **options)
    [trajectory] = collect([env], recorder, [RolloutSpec(Task(env_id, opponent="kuhn/nash", seed=3))])
    assert trajectory.failure is None, trajectory.failure
    assert any(completion.overflow for completion in recorder.completions), "some prompt was too long"
    ends = trainer.player.generator.tokens.end_ids  # type: ignore[union-attr]
    assert all(not ends & set(recorded.ids[:-1]) for recorded in recorder.completions)
    if "end" in model or "eos" in model:
        assert len(ends) >= 1 + ("eos" in model)

    trainer.write_model(tmp_path / "saved")
    trainer.write_model(tmp_path / "league" / "step-1")
    others: dict[str, Any] = {"a request to vLLM": chat_tokenizer(trainer)}
    for cached in (False, True):
        generator: Any = load_generator(tmp_path / "saved", cached=cached)[0]
        others[f"eval, cached={cached}"] = generator.tokens
    for folder in ("saved", "league/step-1"):
        opponent: Any = make_opponent(f"checkpoint:{tmp_path / folder}", make_game("KuhnPoker"))
        others[f"checkpoint:{folder}"] = opponent.generator.tokens
    expected = [trainer.player.generator.tokens.encode(prompt) for prompt in recorder.prompts]  # type: ignore[union-attr]
    assert len(set(expected)) >= 3
    for where, tokens in others.items():
        assert [tokens.encode(prompt) for prompt in recorder.prompts] == expected, where
        assert tokens.end_ids == ends, where
    request = RequestSettings(max_new_tokens=8).parameters(recorder.prompts[0], chat_tokenizer(trainer))
    assert request["stop_token_ids"] == sorted(ends)
