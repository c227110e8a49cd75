"""`RunFields`: the fields of a training run that this package defines, and the fields of TRL that it sets or checks.

No torch here, because a dry run resolves presets, files and flags with these fields only. `MAGEConfig` adds all other
fields of `trl.GRPOConfig`. If an option of the environment is None, the environment's default applies.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field
from math import isfinite
from typing import Any, NamedTuple, TypeVar

from mage_envs.processes.watchdog import CALL_TIMEOUT_S
from mage_envs.trainer.backends.tokens import DATE
from mage_envs.trainer.method.advantages import CreditConfig
from mage_envs.trainer.method.components import ADVANTAGES, KL_ESTIMATORS, POLICY_LOSSES, RETURNS

T = TypeVar("T")


class Bounds(NamedTuple):
    """Finite values that a field may have: at least, more than, at most, and less than a number, or None."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def contain(self, value: float) -> bool:
        """Return True if the value is finite and within the bounds."""
        # In this form NaN is refused, too, for which every comparison is False.
        above = (self.ge is None or value >= self.ge) and (self.gt is None or value > self.gt)
        below = (self.le is None or value <= self.le) and (self.lt is None or value < self.lt)
        return isfinite(value) and above and below

    def __str__(self) -> str:
        limits = zip((">=", ">", "<=", "<"), self, strict=True)
        return " and ".join(f"{sign} {limit:g}" for sign, limit in limits if limit is not None)


class HelpText(str):
    """Text of a field in the help, with the bounds of its value."""

    # In the text, because transformers passes all metadata of a field to argparse.
    bounds: Bounds | None


def option(default: T, text: str, **bounds: float) -> T:
    """Return a dataclass field with its default, its help text and its `Bounds`."""
    help_text = HelpText(text)
    help_text.bounds = Bounds(**bounds) if bounds else None
    return field(default=default, metadata={"help": help_text})


def bounds_of(item: Field[Any]) -> Bounds | None:
    """Return the bounds of a field, or None if it has none."""
    return getattr(item.metadata.get("help"), "bounds", None)


@dataclass
class EnvironmentFields:
    """Environment and opponents."""

    env_id: str = option(
        "mage/KuhnPoker-Meta-v0", "Id of the meta-episode environment, or module:id (default: mage/KuhnPoker-Meta-v0)."
    )
    imports: list[str] = field(
        default_factory=list,
        metadata={"help": "Modules that register games and opponents, also stored in mage.json (default: none)."},
    )
    protocol: str | None = option(
        None, "Protocol of the meta-episodes: adaptive or paper (default: None, which is adaptive)."
    )
    num_episodes: int | None = option(None, "Number of episodes per meta-episode, K (default: None, which is 3).", ge=1)
    memory: str | None = option(
        None,
        "Memory between episodes: a name from mage list, or module:Class (default: None, which is reflection).",
    )
    context: str | None = option(
        None,
        "Context of a model call: rebuilt (a new prompt) or conversation (one chat) (default: None, which is rebuilt).",
    )
    prompt_style: str | None = option(None, "Name of a registered prompt style (default: None, which is plain).")
    system_prompt: str | None = option(
        None,
        "System message before every chat, or @FILE to read it from a text file, also stored in mage.json "
        "(default: None, no message).",
    )
    prompt_date: str = option(
        DATE,
        "Day (YYYY-MM-DD) in the prompts of a chat template that writes one, also stored in mage.json, so that no run "
        f"depends on the day on which it is played (default: {DATE}).",
    )
    opponents: dict | str | None = field(  # type: ignore[type-arg]
        default=None,
        metadata={
            "help": "Training opponents: a pool, an opponent, or a JSON mapping of names to weights "
            "(default: None, which is the game's default)."
        },
    )
    population: str = option(
        "fixed",
        "Draw of opponents: fixed, prioritised (by results, PFSP) or league (with past selves) (default: fixed).",
    )
    pfsp_curve: str = option(
        "hard",
        "Curve from results to weights if population is not fixed: hard, linear, variance or even (default: hard).",
    )
    league_every: int = option(
        50, "Optimiser steps between two snapshots of the learner in a league (default: 50).", ge=1
    )
    league_share: float = option(0.5, "Share of the draws that past selves get in a league (default: 0.5).", gt=0, lt=1)
    seat: str | None = option(
        None, "Seat of the learner, such as alternate or fixed (default: None, the seat of the protocol)."
    )
    env_kwargs: dict | str | None = field(  # type: ignore[type-arg]
        default=None,
        metadata={
            "help": "Further keyword arguments of the environment as a JSON object (default: None, no arguments)."
        },
    )
    env_workers: int = option(
        0,
        "Worker processes per rank for environments and opponents (default: 0, which uses the trainer's process).",
        ge=0,
    )
    env_memory_gb: float = option(
        0.0, "Limit of each worker's address space in GiB (default: 0, which disables it).", ge=0
    )
    env_timeout: float = option(
        CALL_TIMEOUT_S,
        "Timeout per environment step in seconds, opponents included (default: 600, 0 disables it).",
        ge=0,
    )
    model_timeout: float = option(
        CALL_TIMEOUT_S,
        "Timeout per model call in seconds, where a lock-step batch is one call (default: 600, 0 disables it).",
        ge=0,
    )
    exploitability_every: int = option(
        0, "Rollouts between two measurements of the model's NashConv in an enumerable game (default: 0, never).", ge=0
    )
    exploitability_samples: int = option(32, "Answers per information set in such a measurement (default: 32).", ge=2)
    max_skipped_updates: int = option(
        10,
        "Number of consecutive updates without a finite loss and gradient, or without a reply to train on, that stops "
        "the run (default: 10).",
        ge=1,
    )
    failure_threshold: float = option(
        0.25,
        "Share of failed meta-episodes in a rollout above which the run stops (default: 0.25).",
        ge=0,
        le=1,
    )


@dataclass
class EvaluationFields:
    """Evaluation and log."""

    eval_panel: str | None = option(
        None, "Panel of mage list panels that is played during training (default: None, no evaluation)."
    )
    eval_every: int = option(10, "Rollouts between two evaluations of the panel (default: 10, 0 disables them).", ge=0)
    eval_memory_every: int = option(
        5,
        "Evaluations between two whose tasks are also played without memory, which shows how much of the gain over the "
        "episodes is memory (default: 5, 0 disables it).",
        ge=0,
    )
    eval_temperature: float | None = option(
        None,
        "Sampling temperature of evaluations (default: None, which is 0.7 if protocol is paper, else temperature).",
        ge=0,
    )
    eval_top_p: float | None = option(
        None, "Top-p of evaluations (default: None, which is 0.8 if protocol is paper, else 1).", gt=0, le=1
    )
    eval_top_k: int | None = option(
        None,
        "Top-k of evaluations, where 0 keeps all tokens (default: None, which is 20 if protocol is paper, else 0).",
        ge=0,
    )
    early_stop: int = option(
        0,
        "Number of consecutive evaluations without a new best score that ends the run (default: 0, which disables it).",
        ge=0,
    )
    logging_strategy: str = option("steps", "Set to no to disable the console lines and the trackers (default: steps).")
    verbose: bool = option(False, "True for more console lines per rollout (default: False).")
    log_transcripts: int = option(
        2, "Meta-episodes per rollout that are stored in transcripts.jsonl (default: 2).", ge=0
    )


@dataclass
class CreditFields:
    """Returns and advantages."""

    reward: str | None = option(
        None,
        "Reward of an episode: a name from the game's settings (task, released, ...), or module:function, which maps "
        "the finished hands and the planned number to a number (default: None, the protocol's).",
    )
    returns: str = option(
        CreditConfig.returns,
        f"Scheme of the returns: {', '.join(RETURNS)}, or module:function (default: differential).",
    )
    credit: str | None = option(
        None,
        "Step that receives a reward: the last of the episode (episode) or of each hand (reward). By default (None) "
        "reward for advantage exact, and for several hands per episode unless advantage is gigpo; else episode.",
    )
    gamma_step: float = option(CreditConfig.gamma_step, "Discount per play step, gs (default: 0.95).", ge=0, le=1)
    gamma_episode: float = option(
        CreditConfig.gamma_episode,
        "Discount across episodes, gt; 0.6 weighs three episodes 0.40/0.24/0.36, 1 only the last (default: 0.6).",
        ge=0,
        le=1,
    )
    advantage: str = option(
        CreditConfig.advantage,
        f"Advantage estimator: {', '.join(ADVANTAGES)}, or module:function (default: gigpo).",
    )
    horizon: str = option(
        CreditConfig.horizon,
        "Horizon if advantage is exact: hand, or meta (adds the sampled rest of the meta-episode) (default: hand).",
    )
    anchor: str = option(
        CreditConfig.anchor,
        "Equal observations that gigpo compares: global (of all episodes) or local (of one episode) (default: global).",
    )
    advantage_norm: str = option(
        CreditConfig.advantage_norm,
        "Normalisation of advantages: mean, or mean_std, which also divides by the deviation (default: mean).",
    )
    step_weight: float = option(
        CreditConfig.step_weight, "Weight w of the step part in A = A_E + w A_S (default: 1.0).", ge=0
    )
    statistics: str = option(
        CreditConfig.statistics,
        "Samples of means and deviations: opponent (one group and opponent) or pooled (a rollout) (default: opponent).",
    )
    grouping: str = option(
        "stationary",
        "Opponent of a group: stationary (one for all) or non_stationary (drawn per member) (default: stationary).",
    )


@dataclass
class UpdateFields:
    """Rollouts and updates."""

    max_rollouts: int | None = option(
        None, "Number of rollouts of the run (default: None, which is 150 unless max_steps is set).", ge=1
    )
    groups_per_rollout: int | None = option(
        None, "Number of groups per rollout (default: None, which follows from per_device_train_batch_size).", ge=1
    )
    updates_per_rollout: str = option(
        "auto", "Optimiser steps per rollout, or auto for ceil(trainable steps / minibatch_size) (default: auto)."
    )
    minibatch_size: int = option(
        64, "Trainable steps per optimiser step if updates_per_rollout is auto (default: 64).", ge=1
    )
    max_tokens_per_microbatch: int = option(
        16_384, "Maximum tokens of a forward pass with padding; a longer row is forwarded alone (default: 16384).", ge=1
    )
    max_tokens_per_generation: int = option(
        65_536,
        "Maximum tokens of prompts and full-length replies that transformers generates together "
        "(default: 65536, 0 disables it).",
        ge=0,
    )
    max_prompt_length: int = option(
        4096, "Prompt limit in tokens, above which the history is shortened (default: 4096).", ge=1
    )
    merge_prefixes: bool = option(
        True, "True to train consecutive steps whose prompts extend each other as one row (default: True)."
    )
    mask_truncated: bool = option(
        False, "True to exclude replies cut at the token limit from the loss (default: False)."
    )
    backend: str = option(
        "trl",
        "Rollout backend: trl (also lock-step vLLM), cached (caches conversations) or vllm_stream (default: trl).",
    )
    constrained: bool = option(False, "True to sample and score replies among the legal actions only (default: False).")
    uniform_legal_coef: float = option(
        0.0, "Weight of the cross-entropy to uniform over the legal ids of one-token answers (default: 0.0).", ge=0
    )
    uniform_legal_coef_end: float | None = option(
        None, "Value that uniform_legal_coef reaches linearly at the end (default: None, no schedule).", ge=0
    )

    # Shortcuts between the sampler and the updates.
    rollout_ahead: int = option(
        0, "Number of rollouts played while the previous one is trained on (default: 0).", ge=0, le=1
    )
    dynamic_sampling: int = option(
        0, "Maximum number of redraws of groups without variance per rollout (default: 0, which disables it).", ge=0
    )
    reuse_sampling_logprobs: bool = option(
        False, "True to use the sampler's log-probabilities as the old ones, without a scoring pass (default: False)."
    )
    reuse_mismatch: float = option(
        0.02,
        "Maximum mean |log p - log q| for that reuse if the sampler's weights or numerics differ (default: 0.02).",
        ge=0,
    )

    policy: str = option(
        "ppo",
        f"Policy loss: {', '.join(POLICY_LOSSES)}, or module:function; gspo_step has one ratio per model call "
        "(default: ppo).",
    )
    kl_estimator: str = option(
        "k3",
        f"Estimator of the KL divergence to the reference model: {', '.join(KL_ESTIMATORS)}, or module:function "
        "(default: k3).",
    )
    normalise: str = option(
        "tokens",
        "Normalisation of the loss: tokens, steps (model calls), or none (Dr. GRPO) (default: tokens).",
    )


@dataclass
class InheritedFields:
    """Fields of TRL with its defaults that presets, hardware or checks name."""

    output_dir: str | None = option(None, "Folder of the run (default: None, which is trainer_output).")
    seed: int = option(42, "Seed of the run (default: 42).", ge=0)
    use_cpu: bool = option(False, "True to train on the CPU (default: False).")
    bf16: bool | None = option(
        None, "True for bf16 mixed precision (default: None, which is True on an accelerator unless fp16 is set)."
    )
    fp16: bool = option(False, "True for fp16 mixed precision (default: False).")
    max_steps: int = option(
        -1, "Number of optimiser steps of the run (default: -1, which follows from max_rollouts).", ge=-1
    )
    per_device_train_batch_size: int = option(8, "Meta-episodes per process and rollout (default: 8).", ge=1)
    per_device_eval_batch_size: int = option(
        8, "Meta-episodes of an evaluation that a process plays together (default: 8).", ge=1
    )
    learning_rate: float = option(1e-6, "Learning rate of AdamW (default: 1e-6).", ge=0)
    adam_beta2: float = option(0.999, "Second beta of AdamW (default: 0.999).", ge=0, lt=1)
    max_grad_norm: float = option(1.0, "Maximum norm of the gradient, to which it is clipped (default: 1.0).", ge=0)
    beta: float = option(
        0.0, "Weight of the KL divergence to the reference model (default: 0.0, which loads no reference model).", ge=0
    )
    epsilon: float = option(0.2, "Clip range of the ratio (default: 0.2).", ge=0)
    epsilon_high: float | None = option(None, "Upper clip range of the ratio (default: None, which is epsilon).", ge=0)
    temperature: float = option(1.0, "Sampling temperature in training (default: 1.0).", gt=0)
    save_strategy: str = option("steps", "Set to no to write no checkpoints (default: steps).")
    save_steps: float = option(500, "Optimiser steps between two checkpoints (default: 500).", gt=0)
    save_total_limit: int | None = option(
        None, "Maximum number of intact checkpoints that are kept (default: None, all).", ge=1
    )
    report_to: list[str] = field(
        default_factory=lambda: ["none"],
        metadata={"help": "Trackers such as trackio, wandb and tensorboard, or none, or all (default: none)."},
    )
    disable_tqdm: bool | None = option(
        None, "True to disable the progress line on a terminal (default: None, which shows it)."
    )
    use_vllm: bool = option(False, "True to generate replies with vLLM (default: False).")
    vllm_mode: str = option(
        "colocate", "Location of vLLM: colocate (in the trainer's processes) or server (default: colocate)."
    )
    vllm_gpu_memory_utilization: float = option(0.3, "Share of a GPU's memory for vLLM (default: 0.3).", gt=0, le=1)
    vllm_tensor_parallel_size: int = option(1, "Number of GPUs that share one vLLM engine (default: 1).", ge=1)
    vllm_enable_sleep_mode: bool = option(False, "True to release vLLM's memory during updates (default: False).")
    vllm_max_model_length: int | None = option(
        None,
        "Maximum tokens of a prompt with its reply in vLLM (default: None, which is the sum of both limits).",
        ge=1,
    )


@dataclass
class ChangedFields:
    """Fields of TRL with other defaults."""

    num_generations: int | None = option(8, "Group size, the number of meta-episodes per group (default: 8).", ge=2)
    max_completion_length: int | None = option(1024, "Reply limit in tokens (default: 1024).", ge=1)
    delta: float | None = option(
        3.0, "Bound of the ratio for negative advantages, the dual clip (default: 3.0, None disables it).", gt=1
    )
    use_bias_correction_kl: bool = option(False, "True to multiply the KL term by the ratio (default: False).")
    vllm_importance_sampling_mode: str = option(
        "token_truncate",
        "Sampler correction: token_ or sequence_ (a model call) with truncate or mask (default: token_truncate).",
    )
    entropy_coef: float = option(0.001, "Weight of the entropy bonus (default: 0.001).", ge=0)
    weight_decay: float = option(0.01, "Weight decay of AdamW (default: 0.01).", ge=0)
    lr_scheduler_type: str = option("constant", "Schedule of the learning rate (default: constant).")
    logging_steps: float = option(1, "Optimiser steps between two log entries (default: 1).", gt=0)
    gradient_checkpointing: bool | None = option(  # type: ignore[assignment,unused-ignore]
        None, "True to recompute activations in the backward pass (default: None, which is True on an accelerator)."
    )
    dataloader_pin_memory: bool = option(
        False, "True to pin memory of the data loader, through which no tensors pass (default: False)."
    )


@dataclass
class FixedFields:
    """Fields of TRL with one supported value, which no list shows."""

    num_generations_eval: int | None = option(1, "Meta-episodes per evaluation task, only 1 is supported (default: 1).")
    loss_type: str = option(
        "dapo", "TRL's loss, only dapo is supported; policy and normalise select the loss (default: dapo)."
    )
    disable_dropout: bool = option(
        True, "True to disable dropout, which would move the ratio off 1; only True is supported (default: True)."
    )
    router_aux_loss_coef: float | None = option(
        0.0, "Weight of the router's auxiliary loss, only 0 is supported (default: 0.0)."
    )


GROUPS = (EnvironmentFields, EvaluationFields, CreditFields, UpdateFields, InheritedFields, ChangedFields)
"""Groups of fields in the order of the help. The docstring of a group is its title."""


@dataclass
class RunFields(
    FixedFields, ChangedFields, InheritedFields, UpdateFields, CreditFields, EvaluationFields, EnvironmentFields
):
    """Fields of a training run, with the defaults of the method (docs/method.md section 5).

    `num_generations` is the group size. `per_device_train_batch_size` counts meta-episodes, and `groups_per_rollout`
    sets it for any number of processes. An optimiser step uses one mini-batch of a rollout. A run ends after
    `max_rollouts` rollouts or `max_steps` optimiser steps, if both are set at the first limit.

    `delta` is the dual clip: a negative advantage never counts more than `delta` times. TRL clamps the ratio before it
    computes the minimum. For delta > 1 + epsilon that equals the classic max(min(rA, clip(r)A), delta A).
    """
