"""Rules across the fields of a run, each with its cause and a remedy. No torch here."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields

from mage_envs.opponents import CURVES
from mage_envs.trainer.config.fields import RunFields, bounds_of
from mage_envs.trainer.method.components import KL_ESTIMATORS, POLICY_LOSSES

BACKEND_NAMES = ("trl", "cached", "vllm_stream")
CHOICES: Mapping[str, Collection[str]] = {
    "grouping": ("stationary", "non_stationary"),
    "population": ("fixed", "prioritised", "league"),
    "pfsp_curve": CURVES,
    "normalise": ("tokens", "steps", "none"),
    "backend": BACKEND_NAMES,
    "vllm_importance_sampling_mode": ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
}
"""Fields with a few possible values."""


def broken(c: RunFields) -> Iterator[str]:
    """Yield a message for each broken rule."""
    for name, choices in CHOICES.items():
        if (value := vars(c)[name]) not in choices:
            yield f"{name}={value!r} is unknown; choose one of: {', '.join(choices)}."
    for item in fields(RunFields):
        value, bounds = vars(c)[item.name], bounds_of(item)
        if value is not None and bounds is not None and not bounds.contain(value):
            yield f"{item.name}={value} must be {bounds}."
    for registry in (POLICY_LOSSES, KL_ESTIMATORS):
        try:
            registry.check(vars(c)[registry.option])
        except ValueError as error:
            yield str(error)
    yield from _method_rules(c)
    yield from _update_rules(c)
    yield from _backend_rules(c)
    yield from _sampling_rules(c)


def _method_rules(c: RunFields) -> Iterator[str]:
    if c.advantage == "exact" and c.population == "league":
        yield (
            "advantage='exact' requires opponents with exact probabilities; past selves of a league do not have them. "
            "Use population=fixed or prioritised."
        )
    if c.context not in (None, "rebuilt", "conversation"):
        yield f"context={c.context!r} is unknown; choose one of: rebuilt, conversation."
    if c.early_stop > 0 and not c.eval_panel:
        yield f"early_stop={c.early_stop} counts evaluations; set eval_panel."
    if c.env_memory_gb > 0 and c.env_workers < 1:
        yield "env_memory_gb limits worker processes; set env_workers to 1 or more."


def _update_rules(c: RunFields) -> Iterator[str]:
    updates = c.updates_per_rollout
    if updates != "auto" and int(updates) < 1:
        yield f"updates_per_rollout={updates}; use auto or at least 1."
    if updates == "auto" and not str(c.lr_scheduler_type).removeprefix("SchedulerType.").lower().startswith("const"):
        yield (
            f"lr_scheduler_type={str(c.lr_scheduler_type)!r} needs the length of the run, unknown under "
            'updates_per_rollout="auto"; set a number, or use constant.'
        )
    if updates == "auto" and min(c.logging_steps, c.save_steps) < 1:
        yield (
            'logging_steps and save_steps are shares of a length unknown under updates_per_rollout="auto"; '
            "use whole numbers."
        )
    if c.delta is not None and c.delta <= 1 + max(c.epsilon, c.epsilon_high or 0.0):
        yield f"delta={c.delta} is inside the clip range; use more than 1 + epsilon, or None."
    if c.kl_estimator == "k1" and c.beta and c.use_bias_correction_kl:
        yield "use_bias_correction_kl=True counts the gradient of kl_estimator=k1 twice; use k3, or set it to False."
    if c.uniform_legal_coef_end is not None and c.uniform_legal_coef == 0:
        yield "uniform_legal_coef_end ends a schedule that uniform_legal_coef=0 never starts; set uniform_legal_coef."


def _backend_rules(c: RunFields) -> Iterator[str]:
    if c.backend == "vllm_stream" and not c.use_vllm:
        yield 'backend="vllm_stream" needs vLLM; set use_vllm=True.'
    if c.backend == "vllm_stream" and c.vllm_tensor_parallel_size > 1:
        yield 'backend="vllm_stream" serves each process alone; use vllm_tensor_parallel_size=1, or backend="trl".'
    if c.backend == "cached" and c.use_vllm:
        yield 'backend="cached" is the model itself; set use_vllm=False.'
    if c.constrained and c.use_vllm:
        yield 'constrained=True samples among the legal actions, which vLLM does not; use backend="cached".'
    if c.rollout_ahead > 0 and (c.backend == "trl" or c.vllm_enable_sleep_mode):
        yield (
            "rollout_ahead=1 needs a sampler with weights of its own, awake while the model is trained: use "
            'backend="vllm_stream" without vllm_enable_sleep_mode, or backend="cached", which copies the model.'
        )
    if c.dynamic_sampling > 0 and c.advantage == "exact":
        yield "advantage='exact' learns from groups without variance, too; set dynamic_sampling=0."


def _sampling_rules(c: RunFields) -> Iterator[str]:
    if c.loss_type != "dapo":
        yield f"loss_type={c.loss_type!r} is TRL's; leave it at dapo, and use policy and normalise."
    if not c.disable_dropout:
        yield "disable_dropout=False makes the ratio differ from 1 on-policy; leave it True."
    if c.router_aux_loss_coef:
        yield "router_aux_loss_coef is not offered; leave it at 0."
