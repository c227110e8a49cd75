"""How the trainer calls TRL's vLLM backend."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from trl.generation.vllm_generation import VLLMGeneration

from mage_envs.trainer.trl.trl_compat import stop_at
from tests.trainer.tiny_runs import make_trainer, save_model


class Engine:
    """A fake of TRL's vLLM backend: same signature, replies with one fixed word."""

    def __init__(self, word: int, sleeps: bool) -> None:
        self.word, self.enable_sleep_mode = word, sleeps
        self._llm_weights_sleeping = sleeps
        self.calls: list[str] = []
        self.llm = self
        self.generation_kwargs: dict[str, Any] = {}

    def wake_up(self, tags: list[str]) -> None:
        self.calls.append(f"wake {tags[0]}")

    def sleep(self, level: int) -> None:
        self.calls.append("sleep")

    def sync_weights(self) -> None:
        self.calls.append("sync")

    def generate(self, prompts: Any, images: Any, num_generations: int, profiler: Any = None) -> Any:
        assert not self.enable_sleep_mode, "TRL would let it sleep after every call"
        assert num_generations == 1
        self.calls.append("generate")
        return prompts, [[self.word]] * len(prompts), [[[-0.7]]] * len(prompts), [[[self.word]]] * len(prompts)


@pytest.mark.parametrize("sleeps", [False, True])
def test_vllm_is_synced_and_woken_once_per_rollout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sleeps: bool
) -> None:
    assert list(inspect.signature(VLLMGeneration.generate).parameters) == list(
        inspect.signature(Engine.generate).parameters
    )
    trainer = make_trainer(save_model(tmp_path / "model"), tmp_path, None)
    word = trainer.processing_class.convert_tokens_to_ids("bet")  # type: ignore[union-attr]
    engine = Engine(word, sleeps)
    monkeypatch.setattr(trainer.args, "use_vllm", True)
    monkeypatch.setattr(trainer, "use_vllm", True)
    trainer.vllm_generation = engine  # type: ignore[assignment]
    trainer._last_loaded_step = -1
    trainer.train()
    once = [*(["sync", "wake kv_cache"] if sleeps else ["sync"]), "generate"]
    kinds = [call for i, call in enumerate(engine.calls) if call != "generate" or engine.calls[i - 1] != "generate"]
    assert kinds == (once + (["sleep"] if sleeps else [])) * 2
    assert engine.enable_sleep_mode == sleeps
    log = next(log for log in trainer.state.log_history if "sampling/correction" in log)
    assert {"sampling/log_abs", "sampling/k3", "sampling/truncated", "sampling/largest"} <= set(log)


def test_vllm_stops_at_the_end_of_a_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(save_model(tmp_path / "model"), tmp_path, None)
    engine = Engine(0, sleeps=False)
    monkeypatch.setattr(trainer, "use_vllm", True)
    trainer.vllm_generation = engine  # type: ignore[assignment]
    stop_at(trainer, {9, 4})
    assert engine.generation_kwargs == {"stop_token_ids": [4, 9]}
