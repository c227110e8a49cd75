"""The rules across the fields of a run, each with cause and remedy. No torch here."""

from __future__ import annotations

from collections.abc import Sequence

from opponents import CURVES
from trainer.fields import RunFields

LOSSES = {
    "policy": ("ppo", "gspo_step", "cispo"),
    "kl_estimator": ("k1", "k2", "k3"),
    "normalise": ("tokens", "steps", "none"),
}
CORRECTIONS = ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")
POPULATIONS = ("fixed", "prioritised", "league")
BACKEND_NAMES = ("trl", "cached", "vllm_stream")

Rules = list[tuple[bool, str]]


def first_broken(rules: Sequence[tuple[bool, str]]) -> str | None:
    """What is wrong first."""
    return next((message for broken, message in rules if broken), None)


def rules_of(c: RunFields) -> Rules:
    """(whether it is broken, what to say) of every rule."""
    return [*_method_rules(c), *_update_rules(c), *_backend_rules(c), *_sampling_rules(c)]


def _method_rules(c: RunFields) -> Rules:
    return [
        (
            c.grouping not in ("stationary", "non_stationary"),
            f"grouping={c.grouping!r} is unknown; choose one of: stationary, non_stationary.",
        ),
        (
            c.exploitability_every < 0 or c.exploitability_samples < 2,
            f"exploitability_every={c.exploitability_every}, exploitability_samples={c.exploitability_samples}: use at "
            "least 0, and at least 2.",
        ),
        (
            c.advantage == "exact" and c.population == "league",
            "advantage='exact' needs opponents with exact probabilities, which past selves of a league have not; use "
            "population=fixed or prioritised.",
        ),
        (
            c.population not in POPULATIONS,
            f"population={c.population!r} is unknown; choose one of: {', '.join(POPULATIONS)}.",
        ),
        (c.pfsp_curve not in CURVES, f"pfsp_curve={c.pfsp_curve!r} is unknown; choose one of: {', '.join(CURVES)}."),
        (
            c.league_every < 1 or not 0 < c.league_share < 1,
            f"league_every={c.league_every}, league_share={c.league_share}: use at least 1, and a share from 0 to 1.",
        ),
        (
            c.context not in (None, "rebuilt", "conversation"),
            f"context={c.context!r} is unknown; choose one of: rebuilt, conversation.",
        ),
        (
            c.num_episodes is not None and c.num_episodes < 1,
            f"num_episodes={c.num_episodes} leaves nothing to play; use at least 1.",
        ),
        (
            min(c.eval_every, c.early_stop, c.log_transcripts) < 0 or (c.early_stop > 0 and not c.eval_panel),
            f"eval_every={c.eval_every}, early_stop={c.early_stop}, log_transcripts={c.log_transcripts}: none may be "
            "negative, and early_stop needs an eval_panel.",
        ),
        (c.max_tokens_per_generation < 0, f"max_tokens_per_generation={c.max_tokens_per_generation}; 0 is no limit."),
        (c.max_skipped_updates < 1, f"max_skipped_updates={c.max_skipped_updates}; use at least 1."),
        (not 0 <= c.failure_threshold <= 1, f"failure_threshold={c.failure_threshold} is a share; use 0 to 1."),
        (
            min(c.env_workers, c.env_memory_gb, c.env_timeout, c.model_timeout) < 0,
            f"env_workers={c.env_workers}, env_memory_gb={c.env_memory_gb:g}, env_timeout={c.env_timeout:g}, "
            f"model_timeout={c.model_timeout:g}: none may be negative; 0 is none, or no limit.",
        ),
        (
            c.env_memory_gb > 0 and c.env_workers < 1,
            "env_memory_gb limits worker processes; set env_workers to 1 or more.",
        ),
    ]


def _update_rules(c: RunFields) -> Rules:
    updates = c.updates_per_rollout
    return [
        (updates != "auto" and int(updates) < 1, f"updates_per_rollout={updates}; use auto or at least 1."),
        *(
            (vars(c)[name] not in known, f"{name}={vars(c)[name]!r} is unknown; choose one of: {', '.join(known)}.")
            for name, known in LOSSES.items()
        ),
        (c.minibatch_size < 1, f"minibatch_size={c.minibatch_size}; use at least 1."),
        (c.max_tokens_per_microbatch < 1, f"max_tokens_per_microbatch={c.max_tokens_per_microbatch}; use more."),
        (c.max_rollouts is not None and c.max_rollouts < 1, f"max_rollouts={c.max_rollouts}; use at least 1."),
        (
            c.groups_per_rollout is not None and c.groups_per_rollout < 1,
            f"groups_per_rollout={c.groups_per_rollout} plays nothing; use at least 1.",
        ),
        (
            c.num_generations is not None and c.num_generations < 2,
            f"num_generations={c.num_generations} is a group with nobody to compare with; use at least 2.",
        ),
        (
            updates == "auto"
            and not str(c.lr_scheduler_type).removeprefix("SchedulerType.").lower().startswith("const"),
            f"lr_scheduler_type={str(c.lr_scheduler_type)!r} needs the length of the run, unknown under "
            'updates_per_rollout="auto"; set a number, or use constant.',
        ),
        (
            updates == "auto" and min(c.logging_steps, c.save_steps) < 1,
            'logging_steps and save_steps are shares of a length unknown under updates_per_rollout="auto"; '
            "use whole numbers.",
        ),
        (
            c.delta is not None and c.delta <= 1 + max(c.epsilon, c.epsilon_high or 0.0),
            f"delta={c.delta} lies inside the clip range; use more than 1 + epsilon, or None.",
        ),
        (
            c.uniform_legal_coef_end is not None and c.uniform_legal_coef == 0,
            "uniform_legal_coef_end ends a schedule that uniform_legal_coef=0 never starts; set uniform_legal_coef.",
        ),
    ]


def _backend_rules(c: RunFields) -> Rules:
    return [
        (
            c.backend not in BACKEND_NAMES,
            f"backend={c.backend!r} is unknown; choose one of: {', '.join(BACKEND_NAMES)}.",
        ),
        (c.backend == "vllm_stream" and not c.use_vllm, 'backend="vllm_stream" needs vLLM; set use_vllm=True.'),
        (
            c.backend == "vllm_stream" and c.vllm_tensor_parallel_size > 1,
            'backend="vllm_stream" serves each process alone; use vllm_tensor_parallel_size=1, or backend="trl".',
        ),
        (c.backend == "cached" and c.use_vllm, 'backend="cached" is the model itself; set use_vllm=False.'),
        (
            c.constrained and c.use_vllm,
            'constrained=True samples among the legal words, which vLLM does not; use backend="cached".',
        ),
        (
            c.vllm_importance_sampling_mode not in CORRECTIONS,
            f"vllm_importance_sampling_mode={c.vllm_importance_sampling_mode!r} is unknown; choose one of: "
            f"{', '.join(CORRECTIONS)}.",
        ),
        (c.rollout_ahead not in (0, 1), f"rollout_ahead={c.rollout_ahead} is not offered; use 0 or 1."),
        (
            c.rollout_ahead > 0 and (c.backend == "trl" or c.vllm_enable_sleep_mode),
            "rollout_ahead=1 needs a sampler with weights of its own, awake while the model is trained: use "
            'backend="vllm_stream" without vllm_enable_sleep_mode, or backend="cached", which copies the model.',
        ),
        (c.reuse_mismatch < 0, f"reuse_mismatch={c.reuse_mismatch:g} is a mean |log p - log q|; use at least 0."),
        (
            c.dynamic_sampling > 0 and c.advantage == "exact",
            "advantage='exact' learns from groups without variance, too; set dynamic_sampling=0.",
        ),
        (
            c.dynamic_sampling < 0,
            f"dynamic_sampling={c.dynamic_sampling}; use 0 (off) or how often groups may be redrawn.",
        ),
    ]


def _sampling_rules(c: RunFields) -> Rules:
    return [
        (c.temperature <= 0, f"temperature={c.temperature} samples nothing to learn from; use 1.0."),
        (c.loss_type != "dapo", f"loss_type={c.loss_type!r} is TRL's; leave it at dapo, and use policy and normalise."),
        (not c.disable_dropout, "disable_dropout=False makes the ratio differ from 1 on-policy; leave it True."),
        (bool(c.router_aux_loss_coef), "router_aux_loss_coef is not offered; leave it at 0."),
    ]
