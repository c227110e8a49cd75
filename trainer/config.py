"""`MAGEConfig`: every setting of a training run, as one dataclass that `TrlParser` reads from YAML and flags."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from trl.trainer.grpo_config import GRPOConfig

from mage_envs.processes import DEADLINE
from mage_envs.terminal.json_options import EXAMPLE, read_object
from opponents import CURVES
from trainer.advantages import CreditConfig
from trainer.inherited import unread
from trainer.metrics import WronglyStarted
from wrappers import Protocol

FOREVER = 2**31
"""`max_steps` where the number of optimiser steps is not known before the run."""

LOSSES = {
    "policy": ("ppo", "gspo_step", "cispo"),
    "kl_estimator": ("k1", "k2", "k3"),
    "normalise": ("tokens", "steps", "none"),
}
POPULATIONS = ("fixed", "prioritised", "league")
BACKEND_NAMES = ("trl", "cached", "vllm_stream")


def _help(text: str) -> dict[str, str]:
    return {"help": text}


@dataclass
class MAGEConfig(GRPOConfig):
    """`trl.GRPOConfig` with the method's fields and defaults (docs/method.md section 5).

    `num_generations` is the group size and `per_device_train_batch_size` counts meta-episodes; `groups_per_rollout`
    sets the latter for any number of processes. An optimiser step is one mini-batch of a rollout; a run ends after
    `max_rollouts` rollouts or `max_steps` optimiser steps, whichever comes first.

    `delta` is the dual clip: a negative advantage never counts more than `delta` times. TRL clamps the ratio before it
    takes the minimum, which for delta > 1 + epsilon is the classic max(min(rA, clip(r)A), delta A).
    """

    # -- environment ----------------------------------------------------------------------------------------
    env_id: str = field(default="mage/KuhnPoker-Meta-v0", metadata=_help("Meta id of the environment, or module:id."))
    imports: list[str] = field(
        default_factory=list, metadata=_help("Modules of yours that register games and opponents; kept in mage.json.")
    )
    protocol: str = field(default="adaptive", metadata=_help("adaptive or paper."))
    num_episodes: int = field(default=3, metadata=_help("Episodes per meta-episode (K)."))
    memory: str = field(default="reflection", metadata=_help("A name of mage-envs list, or module:Class."))
    context: str = field(default="rebuilt", metadata=_help("rebuilt (fresh prompts) or conversation (one chat)."))
    prompt_style: str = field(default="prose", metadata=_help("Registered prompt style."))
    opponents: dict | str | None = field(  # type: ignore[type-arg]
        default=None, metadata=_help("Pool name, opponent, or JSON mapping of names to weights; None: the default.")
    )
    population: str = field(
        default="fixed", metadata=_help("fixed, prioritised (PFSP, by results), league (with past selves).")
    )
    pfsp_curve: str = field(default="hard", metadata=_help("hard, linear, variance, even."))
    league_every: int = field(default=50, metadata=_help("Updates between two snapshots of the learner."))
    league_share: float = field(default=0.5, metadata=_help("Share of the draws that past selves have."))
    seat: str | None = field(default=None, metadata=_help("alternate, fixed, ...; None: the protocol's."))
    env_kwargs: dict | str | None = field(  # type: ignore[type-arg]
        default=None, metadata=_help("More keyword arguments of the environment (JSON).")
    )
    env_workers: int = field(
        default=0, metadata=_help("Worker processes (per rank) for environments and opponents; 0: this process.")
    )
    env_memory_gb: float = field(default=0.0, metadata=_help("Address space of each worker in GiB; 0: no limit."))
    env_timeout: float = field(
        default=DEADLINE, metadata=_help("Seconds that an environment with its opponents has for a move; 0: for ever.")
    )
    model_timeout: float = field(
        default=DEADLINE, metadata=_help("Seconds that a call of the model (a batch in lock-step) has; 0: for ever.")
    )
    exploitability_every: int = field(
        default=0, metadata=_help("Rollouts between two queries of the model's NashConv (enumerable games); 0: never.")
    )
    exploitability_samples: int = field(default=32, metadata=_help("Answers per information set of such a query."))
    max_skipped_updates: int = field(
        default=10, metadata=_help("Updates in a row with a loss or gradient that is not finite that stop the run.")
    )
    failure_threshold: float = field(default=0.25, metadata=_help("Share of failed meta-episodes that stops the run."))

    # -- credit ---------------------------------------------------------------------------------------------
    returns: str = field(default="differential", metadata=_help("differential, cumulative, single_episode, final."))
    credit: str | None = field(
        default=None, metadata=_help("episode, reward; None: reward for member_mean and several hands, else episode.")
    )
    gamma_step: float = field(default=0.95, metadata=_help("gs, per play step."))
    gamma_episode: float = field(
        default=0.6, metadata=_help("gt, across episodes: 0.6 weighs three episodes 0.40/0.24/0.36, 1 only the last.")
    )
    advantage: str = field(default="gigpo", metadata=_help("gigpo, grpo, rloo, member_mean, exact."))
    horizon: str = field(
        default="hand", metadata=_help("Of advantage=exact: hand, or meta (adds the sampled rest of the meta-episode).")
    )
    anchor: str = field(default="global", metadata=_help("global or local."))
    advantage_norm: str = field(default="mean", metadata=_help("mean or mean_std."))
    step_weight: float = field(default=1.0, metadata=_help("w of A = A_E + w A_S."))
    statistics: str = field(default="agent", metadata=_help("agent or pooled."))
    grouping: str = field(default="stationary", metadata=_help("stationary, non_stationary (opponents mixed)."))

    # -- rollouts and updates -------------------------------------------------------------------------------
    max_rollouts: int | None = field(default=None, metadata=_help("Rollouts of the run; 150 without max_steps."))
    groups_per_rollout: int | None = field(default=None, metadata=_help("Groups of num_generations per rollout."))
    updates_per_rollout: str = field(
        default="auto", metadata=_help("Optimiser steps per rollout; auto: ceil(trainable steps / minibatch_size).")
    )
    minibatch_size: int = field(default=64, metadata=_help("Trainable steps per optimiser step under auto."))
    max_tokens_per_microbatch: int = field(
        default=16_384, metadata=_help("Tokens, padding included, per forward pass; a longer row goes alone.")
    )
    max_prompt_length: int = field(default=4096, metadata=_help("Prompt limit in tokens; then history is trimmed."))
    merge_prefixes: bool = field(default=True, metadata=_help("One row per run of steps that extend each other."))
    mask_truncated: bool = field(default=False, metadata=_help("Weight 0 for replies cut at the token limit."))
    backend: str = field(
        default="trl", metadata=_help("trl (also vLLM in lock-step), cached (keeps conversations), vllm_stream.")
    )
    constrained: bool = field(
        default=False, metadata=_help("Replies are sampled among the legal words, and scored among them.")
    )
    uniform_legal_coef: float = field(
        default=0.0, metadata=_help("Weight of the cross-entropy to uniform over the legal ids; one-token answers.")
    )
    uniform_legal_coef_end: float | None = field(default=None, metadata=_help("Its value at the end, linearly."))
    reuse_sampling_logprobs: bool = field(
        default=False, metadata=_help("Take the sampler's log-probabilities as the old ones: same weights, float32.")
    )

    policy: str = field(default="ppo", metadata=_help("ppo, gspo_step (one ratio per model call), cispo."))
    kl_estimator: str = field(default="k3", metadata=_help("Of the KL to the reference: k1, k2, k3."))
    normalise: str = field(
        default="tokens", metadata=_help("Mean over tokens, over steps (model calls), or none (Dr. GRPO).")
    )

    # -- TRL's fields with other defaults -------------------------------------------------------------------
    num_generations: int | None = field(default=8, metadata=_help("Group size: meta-episodes per group."))
    num_generations_eval: int | None = field(default=1, metadata=_help("Meta-episodes per evaluation task."))
    max_completion_length: int | None = field(default=1024, metadata=_help("Reply limit in tokens."))
    loss_type: str = field(default="dapo", metadata=_help("TRL's; here policy and normalise say it."))
    delta: float | None = field(default=3.0, metadata=_help("Dual clip."))
    use_bias_correction_kl: bool = field(default=False, metadata=_help("Weigh the KL by the ratio."))
    vllm_importance_sampling_mode: str = field(default="token_truncate", metadata=_help("token_truncate."))
    entropy_coef: float = field(default=0.001, metadata=_help("Weight of the entropy bonus."))
    disable_dropout: bool = field(default=True, metadata=_help("Dropout would move the ratio off 1."))
    router_aux_loss_coef: float | None = field(default=0.0, metadata=_help("Not supported: 0."))
    weight_decay: float = field(default=0.01, metadata=_help("AdamW's weight decay."))
    lr_scheduler_type: str = field(default="constant", metadata=_help("Learning-rate schedule."))
    logging_steps: float = field(default=1, metadata=_help("Optimiser steps between two log lines."))
    gradient_checkpointing: bool | None = field(  # type: ignore[assignment,unused-ignore]
        default=None, metadata=_help("None: on where there is an accelerator.")
    )
    dataloader_pin_memory: bool = field(default=False, metadata=_help("No tensors pass the data loader."))

    def __post_init__(self) -> None:
        module, _, env_id = self.env_id.rpartition(":")
        if module:
            self.env_id, self.imports = env_id, [*self.imports, module]
        self.opponents = _from_json("opponents", self.opponents, names=True)
        self.env_kwargs = _from_json("env_kwargs", self.env_kwargs) or {}
        self.updates_per_rollout = str(self.updates_per_rollout)
        if self.updates_per_rollout != "auto":
            _to_int("updates_per_rollout", self.updates_per_rollout)
        on_cpu = self.use_cpu or not torch.accelerator.is_available()
        if self.bf16 is None:
            self.bf16 = not on_cpu and not self.fp16
        if self.gradient_checkpointing is None:
            self.gradient_checkpointing = not on_cpu
        self._check()
        self._size_rollout()
        self._size_run()
        super().__post_init__()  # type: ignore[no-untyped-call]
        started = int(os.environ.get("WORLD_SIZE", "1"))
        if started > self.world_size:
            raise WronglyStarted(
                f"{started} processes were started (WORLD_SIZE), but accelerate sees {self.world_size}, so each would "
                f"train a model of its own; add --use_cpu true to train on CPUs, or start as many as there are GPUs."
            )

    def credit_config(self, protocol: Protocol, hands_per_episode: int) -> CreditConfig:
        """How rewards become advantages; without `credit`, several hands are paid as they end, except under GiGPO."""
        by_hand = self.advantage == "exact" or (hands_per_episode > 1 and self.advantage != "gigpo")
        return CreditConfig.from_protocol(
            protocol,
            returns=self.returns,
            credit=self.credit or ("reward" if by_hand else "episode"),
            gamma_step=self.gamma_step,
            gamma_episode=self.gamma_episode,
            advantage=self.advantage,
            horizon=self.horizon,
            anchor=self.anchor,
            norm=self.advantage_norm,
            step_weight=self.step_weight,
            statistics=self.statistics,
        )

    def _size_rollout(self) -> None:
        """Meta-episodes per process from groups per rollout."""
        if self.groups_per_rollout is None:
            return
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        episodes = self.groups_per_rollout * (self.num_generations or 0)
        if episodes % processes:
            raise ValueError(
                f"groups_per_rollout={self.groups_per_rollout} x num_generations={self.num_generations} meta-episodes "
                f"do not divide among {processes} processes; choose a multiple of {processes}."
            )
        self.per_device_train_batch_size = episodes // processes

    def _size_run(self) -> None:
        """`max_steps` from `max_rollouts`; the trainer lowers it as it learns how many updates a rollout makes."""
        if self.max_rollouts is None and self.max_steps <= 0:
            self.max_rollouts = 150
        if self.max_rollouts is None:
            return
        planned = FOREVER
        if self.updates_per_rollout != "auto":
            planned = self.max_rollouts * int(self.updates_per_rollout)
        self.max_steps = planned if self.max_steps <= 0 else min(self.max_steps, planned)

    def _check(self) -> None:
        """The cross-field rules, each with cause and remedy."""
        CreditConfig(
            returns=self.returns,
            credit=self.credit or ("reward" if self.advantage == "exact" else "episode"),
            advantage=self.advantage,
            horizon=self.horizon,
            anchor=self.anchor,
            norm=self.advantage_norm,
            statistics=self.statistics,
        )
        rules = [*_method_rules(self), *_update_rules(self), *_backend_rules(self), *_trl_rules(self), *unread(self)]
        for broken, message in rules:
            if broken:
                raise ValueError(message)


Rules = list[tuple[bool, str]]


def _method_rules(c: MAGEConfig) -> Rules:
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
            c.context not in ("rebuilt", "conversation"),
            f"context={c.context!r} is unknown; choose one of: rebuilt, conversation.",
        ),
        (c.num_episodes < 1, f"num_episodes={c.num_episodes} leaves nothing to play; use at least 1."),
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


def _update_rules(c: MAGEConfig) -> Rules:
    updates = c.updates_per_rollout
    return [
        (
            c.gradient_accumulation_steps != 1,
            f"gradient_accumulation_steps={c.gradient_accumulation_steps}: memory is bounded by "
            "max_tokens_per_microbatch instead; leave it at 1.",
        ),
        (updates != "auto" and int(updates) < 1, f"updates_per_rollout={updates}; use auto or at least 1."),
        *(
            (vars(c)[name] not in known, f"{name}={vars(c)[name]!r} is unknown; choose one of: {', '.join(known)}.")
            for name, known in LOSSES.items()
        ),
        (c.minibatch_size < 1, f"minibatch_size={c.minibatch_size}; use at least 1."),
        (c.max_tokens_per_microbatch < 1, f"max_tokens_per_microbatch={c.max_tokens_per_microbatch}; use more."),
        (c.max_rollouts is not None and c.max_rollouts < 1, f"max_rollouts={c.max_rollouts}; use at least 1."),
        (
            updates == "auto"
            and not str(c.lr_scheduler_type).removeprefix("SchedulerType.").lower().startswith("const"),
            f"lr_scheduler_type={str(c.lr_scheduler_type)!r} needs the length of the run, unknown under "
            'updates_per_rollout="auto"; set a number, or use constant.',
        ),
        (
            updates == "auto" and min(c.logging_steps, c.save_steps, c.eval_steps or 1) < 1,
            'logging_steps, save_steps and eval_steps are shares of a length unknown under updates_per_rollout="auto"; '
            "use whole numbers.",
        ),
        (c.num_iterations != 1, f"num_iterations={c.num_iterations}: a rollout is passed once; set it to 1."),
        (
            (c.steps_per_generation or 1) != 1 or c.generation_batch_size is not None,
            "steps_per_generation and generation_batch_size are TRL's; use groups_per_rollout and updates_per_rollout.",
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


def _backend_rules(c: MAGEConfig) -> Rules:
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
            c.reuse_sampling_logprobs and c.use_vllm,
            "reuse_sampling_logprobs=True trusts the sampler, which vLLM's numerics do not deserve; set it to False.",
        ),
    ]


def _trl_rules(c: MAGEConfig) -> Rules:
    neutral = c.top_p == 1.0 and not c.top_k and not c.min_p and c.repetition_penalty == 1.0
    return [
        (
            not neutral,
            "top_p, top_k, min_p and repetition_penalty must be neutral in training (1, 0, None, 1): "
            "log-probabilities are corrected for temperature only.",
        ),
        (c.temperature <= 0, f"temperature={c.temperature} samples nothing to learn from; use 1.0."),
        (c.loss_type != "dapo", f"loss_type={c.loss_type!r} is TRL's; leave it at dapo, and use policy and normalise."),
        (c.importance_sampling_level != "token", "importance_sampling_level: a row may hold many steps; use token."),
        (not c.disable_dropout, "disable_dropout=False makes the ratio differ from 1 on-policy; leave it True."),
        (
            c.use_vllm
            and c.vllm_importance_sampling_correction
            and c.vllm_importance_sampling_mode != "token_truncate",
            f"vllm_importance_sampling_mode={c.vllm_importance_sampling_mode!r} is not offered; use token_truncate.",
        ),
        (c.mask_truncated_completions, "mask_truncated_completions is TRL's; use mask_truncated."),
        (
            c.off_policy_mask_threshold is not None or c.top_entropy_quantile < 1 or c.use_adaptive_entropy,
            "off_policy_mask_threshold, top_entropy_quantile and use_adaptive_entropy are not offered; leave them off.",
        ),
        (c.use_transformers_continuous_batching, "use_transformers_continuous_batching hangs on CPU; use use_vllm."),
        (bool(c.router_aux_loss_coef), "router_aux_loss_coef is not offered; leave it at 0."),
        (c.log_completions, "log_completions is not offered; pass on_rollout_end to MAGETrainer."),
    ]


def _to_int(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise ValueError(f"{name}={value!r} is neither auto nor a whole number.") from error


def _from_json(name: str, value: Any, names: bool = False) -> Any:
    """A mapping from JSON text; with `names`, text that is no JSON object is a name and stays."""
    if value is None or isinstance(value, Mapping):
        return value
    if names and not value.lstrip().startswith("{"):
        return value
    return read_object(name, value, '{"kuhn/aggressive": 0.5, "kuhn/nash": 0.5}' if name == "opponents" else EXAMPLE)
