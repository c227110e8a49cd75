"""`MAGEConfig`: defaults, parsing, and the cross-field rules."""

import re
from dataclasses import fields
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from peft import LoraConfig
from trl import TrlParser

from mage_envs.trainer import MAGEConfig
from mage_envs.trainer.config.fields import RunFields, bounds_of
from mage_envs.trainer.config.rules import BACKEND_NAMES
from mage_envs.trainer.config.run_settings import FOREVER, RunSettings
from mage_envs.trainer.trl.backend_registry import BACKENDS
from mage_envs.wrappers import ADAPTIVE, PAPER
from tests.trainer.tiny_runs import make_config, make_trainer, save_model


def test_the_defaults_are_the_methods() -> None:
    config = MAGEConfig(output_dir="x", use_cpu=True)
    assert (config.num_generations, config.epsilon, config.delta, config.entropy_coef) == (8, 0.2, 3.0, 0.001)
    assert (config.loss_type, config.use_bias_correction_kl, config.disable_dropout) == ("dapo", False, True)
    assert (config.learning_rate, config.weight_decay, config.max_grad_norm) == (1e-6, 0.01, 1.0)
    assert (config.adam_beta1, config.adam_beta2, config.warmup_steps) == (0.9, 0.999, 0)
    assert (config.bf16, config.gradient_checkpointing) == (False, False)
    assert (config.max_rollouts, config.max_steps) == (150, FOREVER)
    assert (config.gamma_step, config.gamma_episode) == (0.95, 0.6)


def test_yaml_and_flags_are_read(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(
        "output_dir: x\nuse_cpu: true\nopponents: {kuhn/rock: 0.25, kuhn/maniac: 0.75}\nenv_kwargs: {reveal: always}\n"
        "groups_per_rollout: 4\nupdates_per_rollout: 4\nmax_rollouts: 150\n"
    )
    parser = TrlParser(MAGEConfig)  # type: ignore[no-untyped-call]
    flags = ["--config", str(tmp_path / "run.yaml"), "--max_steps", "2", "--credit", "episode", "--delta", "4"]
    (config,) = parser.parse_args_and_config(flags)
    assert config.opponents == {"kuhn/rock": 0.25, "kuhn/maniac": 0.75}
    assert config.env_kwargs == {"reveal": "always"}
    assert (config.max_steps, config.max_rollouts, config.updates_per_rollout, config.delta) == (2, 150, "4", 4.0)
    assert config.per_device_train_batch_size == 32
    (settings,) = parser.parse_args_and_config(["--output_dir", "x", "--use_cpu", "--opponents", "paper"])
    assert settings.opponents == "paper"
    assert "--uniform_legal_coef" in parser.format_help()


def test_rollouts_and_updates_give_the_steps() -> None:
    assert make_config(Path("x"), max_rollouts=10, updates_per_rollout=4).max_steps == 40
    assert make_config(Path("x"), max_rollouts=10, updates_per_rollout="4", max_steps=7).max_steps == 7
    assert make_config(Path("x"), max_rollouts=None, max_steps=7).max_rollouts is None


def test_groups_divide_among_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ValueError, match="6 meta-episodes do not divide|do not divide among 4 processes"):
        make_config(Path("x"))


def test_every_backend_has_a_name() -> None:
    assert tuple(BACKENDS) == BACKEND_NAMES


def test_credit_follows_the_protocol_and_the_hands() -> None:
    config = make_config(Path("x"))
    assert config.credit_config(ADAPTIVE, 2).credit == "reward"
    assert config.credit_config(ADAPTIVE, 1).credit == "episode"
    assert make_config(Path("x"), advantage="gigpo").credit_config(ADAPTIVE, 2).credit == "episode"
    assert make_config(Path("x"), credit="episode").credit_config(PAPER, 2).penalty_in_return is False


BAD: list[tuple[dict[str, Any], str]] = [
    ({"gradient_accumulation_steps": 2}, "max_tokens_per_microbatch"),
    ({"credit": "reward", "advantage": "gigpo"}, "member_mean"),
    ({"advantage": "x"}, "choose one of: gigpo"),
    ({"grouping": "mixed"}, "non_stationary"),
    ({"context": "chat"}, "conversation"),
    ({"top_p": 0.9}, "must be neutral in training"),
    ({"top_k": 20}, "must be neutral in training"),
    ({"min_p": 0.1}, "must be neutral in training"),
    ({"loss_type": "grpo"}, "dapo"),
    ({"delta": 1.1}, "more than 1 \\+ epsilon"),
    ({"num_iterations": 2}, "Set it to 1"),
    ({"steps_per_generation": 2}, "groups_per_rollout"),
    ({"disable_dropout": False}, "leave it True"),
    ({"mask_truncated_completions": True}, "Use mask_truncated"),
    ({"updates_per_rollout": 0}, "at least 1"),
    ({"updates_per_rollout": "many"}, "neither auto nor a whole number"),
    ({"updates_per_rollout": "auto", "lr_scheduler_type": "cosine"}, "use constant"),
    ({"updates_per_rollout": "auto", "save_steps": 0.5}, "use whole numbers"),
    ({"uniform_legal_coef_end": 0.1}, "set uniform_legal_coef"),
    ({"backend": "x"}, "choose one of: trl, cached, vllm_stream"),
    ({"backend": "vllm_stream"}, "set use_vllm=True"),
    ({"backend": "cached", "use_vllm": True}, "set use_vllm=False"),
    ({"constrained": True, "use_vllm": True}, "use backend="),
    ({"env_memory_gb": 3.0}, "set env_workers to 1 or more"),
    ({"env_timeout": -1.0}, "env_timeout=-1.0 must be >= 0"),
    ({"failure_threshold": 2.0}, ">= 0 and <= 1"),
    ({"env_kwargs": "{oops"}, "env_kwargs is not JSON"),
    ({"env_kwargs": "[1]"}, "must be a JSON object"),
    ({"log_completions": True}, "on_rollout_end"),
]


@pytest.mark.parametrize(("changes", "remedy"), BAD)
def test_contradictions_are_one_line_with_the_remedy(changes: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy) as error:
        make_config(Path("x"), **changes)
    assert "\n" not in str(error.value)


NUMBERS = {item.name: item for item in fields(RunFields) if re.match(r"(int|float)\b", str(item.type))}


def test_every_number_has_bounds() -> None:
    """The others have one supported value each, and a rule that says so."""
    without = {name for name, item in NUMBERS.items() if bounds_of(item) is None}
    assert without == {"num_generations_eval", "router_aux_loss_coef"}
    assert not {item.name for item in fields(RunFields) if bounds_of(item)} - set(NUMBERS)


@pytest.mark.parametrize("name", [name for name, item in NUMBERS.items() if bounds_of(item)])
def test_values_outside_of_their_bounds_are_refused(name: str) -> None:
    bounds = bounds_of(NUMBERS[name])
    assert bounds is not None
    wrong = [nan, inf, -inf, *(limit for limit in (bounds.gt, bounds.lt) if limit is not None)]
    wrong += [limit + step for limit, step in ((bounds.ge, -1), (bounds.le, 6)) if limit is not None]
    for value in wrong:
        with pytest.raises(ValueError, match=f"^{name}={value} must be {bounds}.$"):
            RunSettings(**{name: value})
    for limit in (bounds.ge, bounds.le):
        assert limit is None or bounds.contain(limit)


def test_traps_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="warmup_steps=5 is not read by lr_scheduler_type=constant. Use constant_with"):
        make_config(tmp_path, warmup_steps=5)
    assert make_config(tmp_path, warmup_steps=5, lr_scheduler_type="constant_with_warmup").warmup_steps == 5
    with pytest.raises(ValueError, match="counts the gradient of kl_estimator=k1 twice"):
        make_config(tmp_path, kl_estimator="k1", beta=0.1, use_bias_correction_kl=True)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_weights_in_16_bits_are_not_trained(tmp_path: Path, dtype: str) -> None:
    path = save_model(tmp_path / "model")
    with pytest.raises(
        ValueError, match=f"of 2[0-9]* trained weights are {dtype}, in which updates at learning_rate=1e-06"
    ):
        make_trainer(path, tmp_path, learning_rate=1e-6, model_init_kwargs={"dtype": dtype})
    adapter = LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
    make_trainer(path, tmp_path, model_init_kwargs={"dtype": dtype}, peft_config=adapter)


def test_limits_fit_into_the_models_positions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = save_model(tmp_path / "model")  # 1,024 positions
    trainer = make_trainer(path, tmp_path, max_completion_length=24)
    assert trainer.args.max_prompt_length == trainer.play.prompt_format.max_prompt_length == 1000  # type: ignore[union-attr]
    assert "max_prompt_length is lowered from its default to 1000: the model has 1024 positions." in caplog.text
    assert make_trainer(path, tmp_path, max_prompt_length=1023).args.max_prompt_length == 1023
    for limits in ({"max_prompt_length": 1024}, {"max_completion_length": 1024}):
        with pytest.raises(ValueError, match="do not fit into the model's 1024 positions"):
            make_trainer(path, tmp_path, **limits)
