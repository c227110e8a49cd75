"""Hardware as data: the needs of a run are estimated before it begins, exact if possible, and refused with a remedy."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from peft import LoraConfig
from transformers import TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.model_config import ModelConfig

from mage_envs.trainer.backends.tiny import general_tiny
from mage_envs.trainer.cli.estimate import estimate
from mage_envs.trainer.config.fields import RunFields
from mage_envs.trainer.config.hardware import FOLDER, TEMPLATE, hardware, hardware_names
from mage_envs.trainer.config.model_shapes import KNOWN, shape_of
from mage_envs.trainer.config.run_settings import RunSettings
from tests.programs import train as main
from tests.trainer.tiny_runs import TINY, make_trainer, save_model

DRY = ("--preset", "mage-kuhn", "--dry-run", "--hardware")
OTHER_DEFAULTS = {
    "num_generations_eval",
    "max_completion_length",
    "loss_type",
    "delta",
    "use_bias_correction_kl",
    "vllm_importance_sampling_mode",
    "entropy_coef",
    "disable_dropout",
    "router_aux_loss_coef",
    "weight_decay",
    "lr_scheduler_type",
    "logging_steps",
    "gradient_checkpointing",
    "dataloader_pin_memory",
    "report_to",
}
"""Fields of TRL's for which this trainer has a default of its own, or another form of the same one."""


class Counted(TrainerCallback):
    """Bytes of weights, gradient and optimiser at the end of the first update."""

    def __init__(self) -> None:
        self.weights = self.gradient = self.optimiser = 0

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        model = kwargs["model"]
        self.weights = sum(p.numel() * p.element_size() for p in model.parameters())
        self.gradient = sum(p.grad.numel() * p.grad.element_size() for p in model.parameters() if p.grad is not None)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        state_values = [
            value for parameter_state in kwargs["optimizer"].state.values() for value in parameter_state.values()
        ]
        self.optimiser = sum(v.numel() * v.element_size() for v in state_values if torch.is_tensor(v) and v.ndim)


@pytest.mark.parametrize("adapted", [False, True])
def test_the_estimate_is_what_a_run_really_holds(adapted: bool, tmp_path: Path) -> None:
    model = save_model(tmp_path / "model")
    counted = Counted()
    modules = ["q_proj", "v_proj", "down_proj"]
    lora = LoraConfig(r=4, target_modules=modules, task_type="CAUSAL_LM") if adapted else None
    options = {"max_rollouts": 1, "updates_per_rollout": 1, "groups_per_rollout": 1}
    trainer = make_trainer(model, tmp_path, peft_config=lora, callbacks=[counted], **options)
    trainer.train()
    model_config = ModelConfig(model_name_or_path=model, use_peft=adapted, lora_r=4, lora_target_modules=modules)
    shape = shape_of(model)
    assert shape is not None
    estimates = estimate(RunSettings(**options, num_generations=2), model_config, shape, hardware("cpu"), 100)
    assert (estimates.weights, estimates.gradient, estimates.optimiser) == (
        counted.weights,
        counted.gradient,
        counted.optimiser,
    )
    assert estimates.optimiser == 2 * estimates.gradient > 0


def test_parameters_by_the_shape_are_those_of_the_files(tmp_path: Path) -> None:
    read = shape_of(general_tiny(tmp_path))
    assert read is not None
    by_shape = KNOWN["tiny"]
    assert read.counted == by_shape.parameters
    assert {**vars(read), "counted": None} == vars(by_shape)
    billions_by_model = {
        name.partition("-")[2]: shape.parameters / 1e9 for name, shape in KNOWN.items() if "Qwen" in name
    }
    rounded = {name: round(billions, 2) for name, billions in billions_by_model.items()}
    assert rounded == {"0.6B": 0.6, "1.7B": 1.72, "4B": 4.02, "8B": 8.19, "14B": 14.77, "32B": 32.76}


def test_the_estimate_of_the_papers_run_is_the_computed_one() -> None:
    """Float32 weights, gradient and Adam of 4B parameters are 64 GB, the reference 16, and the cache 147 kB a token."""
    shape = KNOWN["Qwen/Qwen3-4B"]
    config = RunSettings(beta=0.1, groups_per_rollout=16, max_tokens_per_generation=0, use_cpu=True)
    config.max_prompt_length, config.max_completion_length, config.bf16 = 4096, 4096, True
    estimates = estimate(config, ModelConfig("Qwen/Qwen3-4B"), shape, hardware("1x80gb"), 1000)
    assert (estimates.weights + estimates.gradient + estimates.optimiser) / 1e9 == pytest.approx(64.4, abs=0.1)
    assert estimates.reference / 1e9 == pytest.approx(16.1, abs=0.1)
    assert shape.cache_numbers * 2 == 147_456
    assert estimates.cache == 128 * 8192 * 147_456
    config.max_tokens_per_generation = 65_536
    chunked = estimate(config, ModelConfig("Qwen/Qwen3-4B"), shape, hardware("1x80gb"), 1000)
    assert chunked.cache == 65_536 * 147_456


@pytest.mark.parametrize("name", ["1x24gb", "1x80gb", "8x80gb", "4x8x80gb"])
def test_every_preset_of_the_paper_fits_a_gpu(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*DRY, name]) == 0
    printed_plan = yaml.safe_load(capsys.readouterr().out.split("--- ")[0])
    assert printed_plan["settings"]["vllm_max_model_length"] == 8192
    assert printed_plan["settings"]["save_total_limit"] == 2
    assert printed_plan["settings"]["dtype"] == ("bfloat16" if name.startswith("1x") else "float32")
    assert set(printed_plan["estimate"]) >= {
        "weights",
        "gradient",
        "optimiser",
        "reference",
        "cache",
        "logits",
        "activations",
    }
    assert (
        "mage train --hardware" in printed_plan["hardware"].get("command", "")
        or FOLDER.name in printed_plan["hardware"]["slurm"]
    )
    assert "torch" not in printed_plan["estimate"]


REFUSED = [
    (("cpu",), "try an adapter (--use_peft true --dtype bfloat16)"),
    (("1x24gb", "--use_peft", "false"), "GiB of them for use; try an adapter"),
    (("1x24gb", "--vllm_gpu_memory_utilization", "0.3"), "set it to 0.3"),
    (("1x24gb", "--model", "Qwen/Qwen3-8B"), "vllm_gpu_memory_utilization=0.5 gives it 12.0 GiB"),
    (("8x8gb",), "unknown hardware '8x8gb'. Did you mean '8x80gb'? There are cpu, 1x24gb, 1x80gb, 8x80gb, 4x8x80gb."),
    (("8x80gb", "--groups_per_rollout", "5", "--num_generations", "5"), "do not divide among the 8 processes"),
]


@pytest.mark.parametrize(("arguments", "says"), REFUSED)
def test_what_cannot_fit_is_refused_with_the_remedy(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*DRY, *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_a_disk_without_room_is_refused_before_a_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    run = ("--preset", "mage-kuhn", *TINY, "--groups_per_rollout", "1", "--save_steps", "1", "--hardware", "cpu")
    assert main([*run, "--output_dir", str(tmp_path / "run")]) == 2
    assert "set save_total_limit=1, a larger save_steps, or another output_dir" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_every_kind_names_fields_that_there_are() -> None:
    field_names = {item.name for kind in (RunFields, ModelConfig) for item in fields(kind)}
    for name in hardware_names():
        machine = hardware(name)
        assert {*machine.fields, *machine.adapter} <= field_names, name


def test_fields_of_trl_have_trl_s_defaults_unless_said() -> None:
    theirs = {item.name: item.default for item in fields(GRPOConfig)}
    shared = {item.name: item.default for item in fields(RunFields) if item.name in theirs}
    different = {name for name, default in shared.items() if default != theirs[name]}
    assert different <= OTHER_DEFAULTS, different - OTHER_DEFAULTS


def test_the_template_asks_for_what_the_commands_leave_out_and_leaves_a_checkpoint_its_time() -> None:
    """`make slurm` submits it to a real Slurm."""
    text = (FOLDER / "train.slurm").read_text()
    directives = dict(
        line[len("#SBATCH --") :].split("=") for line in text.splitlines() if "#SBATCH" in line and "=" in line
    )
    assert {name: int(directives[name]) for name in TEMPLATE} == TEMPLATE
    (seconds,) = (line.split("=")[1] for line in text.splitlines() if "TORCH_ELASTIC_SHUTDOWN_TIMEOUT" in line)
    assert directives["signal"] == f"TERM@{int(seconds) + 10}"


@pytest.mark.parametrize(("name", "world_size"), [("8x80gb", None), ("4x8x80gb", "8"), ("1x24gb", "2")])
def test_other_than_the_hardware_s_processes_are_refused(
    name: str, world_size: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would divide a rollout by the wrong number."""
    if world_size is not None:
        monkeypatch.setenv("WORLD_SIZE", world_size)
    assert main(["--preset", "mage-kuhn", "--hardware", name]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    machine = hardware(name)
    assert f"requires {machine.processes} processes, but {world_size or 1} were started; start it with `" in line
    assert machine.launch()["slurm"] in line
