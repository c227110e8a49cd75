"""Code of others changes the process that it shares with the trainer: its random generators, its current folder."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dev.peers.foreign_run import settings
from mage_envs.text.generation import Message, Prompt
from mage_envs.trainer import MAGETrainer, Trajectory
from mage_envs.trainer.backends.tiny import general_tiny
from mage_envs.trainer.trl.backend_registry import trl_generator
from tests.docs.fork_server import call_mage
from tests.trainer.foreign import ToldGuess


class Seeding(ToldGuess):
    """Seeds all that can be seeded, at every call."""

    def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
        self._seed()
        return super().reset(**options)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._seed()
        return super().step(action)

    def _seed(self) -> None:
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)


def play_in(make_env: type[ToldGuess], folder: Path) -> list[Trajectory]:
    """The trajectories of two rollouts with the default backend."""
    all_trajectories: list[Trajectory] = []

    def keep(trainer: MAGETrainer, trajectories: Sequence[Trajectory]) -> None:
        all_trajectories.extend(trajectories)

    trainer = MAGETrainer(
        general_tiny(folder / "model"), settings(folder / "run", members=4), make_env, on_rollout_end=keep
    )
    trainer.train()
    return all_trajectories


def test_an_environment_that_seeds_torch_changes_no_reply(tmp_path: Path) -> None:
    sound, seeding = (play_in(kind, tmp_path / kind.__name__) for kind in (ToldGuess, Seeding))
    texts = [[step.text for step in trajectory.steps] for trajectory in seeding]
    assert texts == [[step.text for step in trajectory.steps] for trajectory in sound]
    assert len({text for group_texts in texts for text in group_texts}) == sum(map(len, texts))


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> MAGETrainer:
    folder = tmp_path_factory.mktemp("trainer")
    return MAGETrainer(general_tiny(folder / "model"), settings(folder / "run"), ToldGuess)


def test_the_default_backend_samples_each_reply_by_its_key(trainer: MAGETrainer) -> None:
    """Return the same reply in any batch and with any padding, and another reply if the key differs."""
    backend = trl_generator(trainer)
    texts = ("Guess a number.", "Too low. Guess another number from 0 to 4.", "Guess a number.")
    prompts = [Prompt((Message("user", text),), seed=(7, member, 0, 0)) for member, text in enumerate(texts)]
    together = backend.generate(prompts)
    assert [backend.generate([prompt])[0].ids for prompt in prompts[::-1]] == [
        completion.ids for completion in together[::-1]
    ]
    assert len({completion.ids for completion in together}) == 3
    state_before = torch.get_rng_state()
    torch.manual_seed(5)
    assert [completion.ids for completion in backend.generate(prompts)] == [completion.ids for completion in together]
    torch.set_rng_state(state_before)


def test_the_default_backend_samples_from_the_models_distribution(trainer: MAGETrainer) -> None:
    """The first token of 2,000 replies, by temperature and top-k, against the softmax of the logits."""
    from mage_envs.trainer.trl import trl_compat

    model: Any = trainer.model
    prompt = [*trainer.processing_class.encode("Guess")]  # type: ignore[union-attr]
    with torch.no_grad():
        logits = model(torch.tensor([prompt])).logits[0, -1].double() / 0.7
    best = logits.topk(4).indices
    expected = logits[best].softmax(0).numpy()
    keys = np.arange(2000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    with trl_compat.sampling(trainer, {"temperature": 0.7, "top_k": 4}):
        replies, _ = trl_compat.generate_ids(trainer, [prompt] * 2000, keys)
    counts = np.array([sum(reply[0] == int(token) for reply in replies) for token in best])
    assert counts.sum() == 2000
    assert np.abs(counts / 2000 - expected).max() < 4 * np.sqrt(0.25 / 2000)


def test_an_environment_that_changes_the_folder_moves_no_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    class Moving(ToldGuess):
        def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
            os.chdir(elsewhere)
            return super().reset(**options)

    model = general_tiny(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    config = settings(Path("run"), members=2)
    config.save_strategy, config.save_steps = "steps", 1  # type: ignore[assignment]
    trainer = MAGETrainer(model, config, Moving)
    trainer.train()
    assert trainer.args.output_dir == str(tmp_path / "run")
    assert [*elsewhere.iterdir()] == []
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {"metrics.jsonl", "checkpoint-1", "checkpoint-2"}


def test_the_command_writes_its_model_where_it_was_started(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "moving.py").write_text(
        "import os\n"
        "from mage_envs import register_opponent\n"
        "@register_opponent('kuhn/moving', games=['KuhnPoker'])\n"
        "class Moving:\n"
        f"    def reset(self, rng): os.chdir({str(tmp_path / 'elsewhere')!r})\n"
        "    def act(self, turn): return turn.legal_actions[0]\n"
    )
    process = call_mage(
        "mage train --model tiny --env_id mage/KuhnPoker-Meta-v0 --import moving --opponents kuhn/moving"
        " --max_rollouts 1 --groups_per_rollout 1 --num_generations 2 --use_cpu true --max_completion_length 4"
        " --output_dir run --disable_tqdm true --save_strategy no",
        tmp_path,
    )
    assert process.returncode == 0, process.stderr
    assert [*(tmp_path / "elsewhere").iterdir()] == []
    assert (tmp_path / "run" / "model.safetensors").exists()
    assert not (tmp_path / "run" / ".lock").exists()
    assert "the model is in run." in process.stdout
