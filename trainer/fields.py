"""`RunFields`: the fields of a training run that are this package's own, and those of TRL's that it sets or checks.

No torch here: a dry run resolves presets, files and flags with these alone. `trainer.config.MAGEConfig` adds all others
of `trl.GRPOConfig`. Options of the environment that are None are left to what makes it, which has the defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from mage_envs.processes import DEADLINE
from trainer.advantages import CreditConfig

T = TypeVar("T")


def option(default: T, text: str) -> T:
    """A field with its default, and what it is."""
    return field(default=default, metadata={"help": text})


@dataclass
class RunFields:
    """The method's fields and defaults (docs/method.md section 5).

    `num_generations` is the group size and `per_device_train_batch_size` counts meta-episodes; `groups_per_rollout`
    sets the latter for any number of processes. An optimiser step is one mini-batch of a rollout; a run ends after
    `max_rollouts` rollouts or `max_steps` optimiser steps, whichever comes first.

    `delta` is the dual clip: a negative advantage never counts more than `delta` times. TRL clamps the ratio before it
    takes the minimum, which for delta > 1 + epsilon is the classic max(min(rA, clip(r)A), delta A).
    """

    # -- environment ----------------------------------------------------------------------------------------
    env_id: str = option("mage/KuhnPoker-Meta-v0", "Meta id of the environment, or module:id.")
    imports: list[str] = field(
        default_factory=list,
        metadata={"help": "Modules of yours that register games and opponents; kept in mage.json."},
    )
    protocol: str | None = option(None, "adaptive (the default) or paper.")
    num_episodes: int | None = option(None, "Episodes per meta-episode (K); 3 by default.")
    memory: str | None = option(None, "A name of mage-envs list, or module:Class; reflection by default.")
    context: str | None = option(None, "rebuilt (fresh prompts, the default) or conversation (one chat).")
    prompt_style: str | None = option(None, "Registered prompt style; prose by default.")
    system_prompt: str | None = option(
        None, "System message before every chat, or @FILE to read it from a text file; kept in mage.json."
    )
    opponents: dict | str | None = field(  # type: ignore[type-arg]
        default=None, metadata={"help": "Pool name, opponent, or JSON mapping of names to weights; None: the default."}
    )
    population: str = option("fixed", "fixed, prioritised (PFSP, by results), league (with past selves).")
    pfsp_curve: str = option("hard", "hard, linear, variance, even.")
    league_every: int = option(50, "Updates between two snapshots of the learner.")
    league_share: float = option(0.5, "Share of the draws that past selves have.")
    seat: str | None = option(None, "alternate, fixed, ...; None: the protocol's.")
    env_kwargs: dict | str | None = field(  # type: ignore[type-arg]
        default=None, metadata={"help": "More keyword arguments of the environment (JSON)."}
    )
    env_workers: int = option(0, "Worker processes (per rank) for environments and opponents; 0: this process.")
    env_memory_gb: float = option(0.0, "Address space of each worker in GiB; 0: no limit.")
    env_timeout: float = option(DEADLINE, "Seconds that an environment with its opponents has for a move; 0: for ever.")
    model_timeout: float = option(DEADLINE, "Seconds that a call of the model (a batch in lock-step) has; 0: for ever.")
    exploitability_every: int = option(
        0, "Rollouts between two queries of the model's NashConv (enumerable games); 0: never."
    )
    exploitability_samples: int = option(32, "Answers per information set of such a query.")
    max_skipped_updates: int = option(
        10, "Updates in a row with a loss or gradient that is not finite that stop the run."
    )
    failure_threshold: float = option(0.25, "Share of failed meta-episodes that stops the run.")

    # -- evaluation and log ---------------------------------------------------------------------------------
    eval_panel: str | None = option(None, "A panel of mage-bench list, played in training.")
    eval_every: int = option(10, "Rollouts between two evaluations, where there is a panel.")
    eval_temperature: float | None = option(
        None, "In evaluations; None: 0.7 under the protocol paper, else temperature."
    )
    eval_top_p: float | None = option(None, "The same: 0.8 under paper, else 1.")
    eval_top_k: int | None = option(None, "The same: 20 under paper, else 0 (all).")
    early_stop: int = option(0, "Evaluations in a row without a new best score that end the run; 0: never.")
    logging_strategy: str = option("steps", "steps; no: nothing is shown or sent to trackers.")
    verbose: bool = option(False, "More lines for each rollout.")
    log_transcripts: int = option(2, "Meta-episodes per rollout kept in transcripts.jsonl.")

    # -- credit ---------------------------------------------------------------------------------------------
    returns: str = option(CreditConfig.returns, "differential, cumulative, single_episode, final.")
    credit: str | None = option(None, "episode, reward; None: reward for member_mean and several hands, else episode.")
    gamma_step: float = option(CreditConfig.gamma_step, "gs, per play step.")
    gamma_episode: float = option(
        CreditConfig.gamma_episode, "gt, across episodes: 0.6 weighs three episodes 0.40/0.24/0.36, 1 only the last."
    )
    advantage: str = option(CreditConfig.advantage, "gigpo, grpo, rloo, member_mean, exact.")
    horizon: str = option(
        CreditConfig.horizon, "Of advantage=exact: hand, or meta (adds the sampled rest of the meta-episode)."
    )
    anchor: str = option(CreditConfig.anchor, "global or local.")
    advantage_norm: str = option(CreditConfig.advantage_norm, "mean or mean_std.")
    step_weight: float = option(CreditConfig.step_weight, "w of A = A_E + w A_S.")
    statistics: str = option(CreditConfig.statistics, "agent or pooled.")
    grouping: str = option("stationary", "stationary, non_stationary (opponents mixed).")

    # -- rollouts and updates -------------------------------------------------------------------------------
    max_rollouts: int | None = option(None, "Rollouts of the run; 150 without max_steps.")
    groups_per_rollout: int | None = option(None, "Groups of num_generations per rollout.")
    updates_per_rollout: str = option(
        "auto", "Optimiser steps per rollout; auto: ceil(trainable steps / minibatch_size)."
    )
    minibatch_size: int = option(64, "Trainable steps per optimiser step under auto.")
    max_tokens_per_microbatch: int = option(
        16_384, "Tokens, padding included, per forward pass; a longer row goes alone."
    )
    max_tokens_per_generation: int = option(
        65_536, "Tokens, replies at their longest, that transformers generates together; 0: all."
    )
    max_prompt_length: int = option(4096, "Prompt limit in tokens; then history is trimmed.")
    merge_prefixes: bool = option(True, "One row per run of steps that extend each other.")
    mask_truncated: bool = option(False, "Weight 0 for replies cut at the token limit.")
    backend: str = option("trl", "trl (also vLLM in lock-step), cached (keeps conversations), vllm_stream.")
    constrained: bool = option(False, "Replies are sampled among the legal words, and scored among them.")
    uniform_legal_coef: float = option(
        0.0, "Weight of the cross-entropy to uniform over the legal ids; one-token answers."
    )
    uniform_legal_coef_end: float | None = option(None, "Its value at the end, linearly.")

    # What may spare work between the sampler and the updates.
    rollout_ahead: int = option(0, "1: the next rollout is played while this one is trained on.")
    dynamic_sampling: int = option(0, "Times that groups without variance are dropped and redrawn; 0: off.")
    reuse_sampling_logprobs: bool = option(
        False, "Take the sampler's log-probabilities as the old ones, without a scoring pass."
    )
    reuse_mismatch: float = option(0.02, "With vLLM: most mean |log p - log q| at which they are taken.")

    policy: str = option("ppo", "ppo, gspo_step (one ratio per model call), cispo.")
    kl_estimator: str = option("k3", "Of the KL to the reference: k1, k2, k3.")
    normalise: str = option("tokens", "Mean over tokens, over steps (model calls), or none (Dr. GRPO).")

    # -- TRL's fields with its defaults: those that presets, hardware and checks name -------------------------
    output_dir: str | None = option(None, "Folder of the run.")
    seed: int = option(42, "Seed of the run.")
    use_cpu: bool = option(False, "Train on the CPU.")
    bf16: bool | None = option(None, "bf16 mixed precision; None: where there is a GPU.")
    fp16: bool = option(False, "fp16 mixed precision.")
    max_steps: int = option(-1, "Optimiser steps of the run; -1: by max_rollouts.")
    per_device_train_batch_size: int = option(8, "Meta-episodes per process and rollout.")
    per_device_eval_batch_size: int = option(8, "Meta-episodes of an evaluation played together.")
    learning_rate: float = option(1e-6, "AdamW's learning rate.")
    adam_beta2: float = option(0.999, "AdamW's second beta.")
    max_grad_norm: float = option(1.0, "Gradient clip.")
    beta: float = option(0.0, "Weight of the KL to the reference model; 0: no such model.")
    epsilon: float = option(0.2, "Clip range of the ratio.")
    epsilon_high: float | None = option(None, "Upper clip range; None: epsilon.")
    temperature: float = option(1.0, "Of sampling in training.")
    save_strategy: str = option("steps", "steps, or no.")
    save_steps: float = option(500, "Optimiser steps between two checkpoints.")
    save_total_limit: int | None = option(None, "Sound checkpoints that are kept; None: all.")
    report_to: list[str] = field(
        default_factory=lambda: ["none"], metadata={"help": "Trackers: trackio, wandb, tensorboard, ...; none; all."}
    )
    disable_tqdm: bool | None = option(None, "No line that is redrawn on a terminal.")
    use_vllm: bool = option(False, "Replies by vLLM.")
    vllm_mode: str = option("colocate", "colocate or server.")
    vllm_gpu_memory_utilization: float = option(0.3, "Share of a GPU's memory for vLLM.")
    vllm_tensor_parallel_size: int = option(1, "GPUs that share a vLLM engine.")
    vllm_enable_sleep_mode: bool = option(False, "vLLM gives its memory back in updates.")
    vllm_max_model_length: int | None = option(None, "Tokens of a prompt and its reply.")

    # -- TRL's fields with other defaults -------------------------------------------------------------------
    num_generations: int | None = option(8, "Group size: meta-episodes per group.")
    num_generations_eval: int | None = option(1, "Meta-episodes per evaluation task.")
    max_completion_length: int | None = option(1024, "Reply limit in tokens.")
    loss_type: str = option("dapo", "TRL's; here policy and normalise say it.")
    delta: float | None = option(3.0, "Dual clip.")
    use_bias_correction_kl: bool = option(False, "Weigh the KL by the ratio.")
    vllm_importance_sampling_mode: str = option(
        "token_truncate", "token_ or sequence_ (a model call), truncate or mask."
    )
    entropy_coef: float = option(0.001, "Weight of the entropy bonus.")
    disable_dropout: bool = option(True, "Dropout would move the ratio off 1.")
    router_aux_loss_coef: float | None = option(0.0, "Not supported: 0.")
    weight_decay: float = option(0.01, "AdamW's weight decay.")
    lr_scheduler_type: str = option("constant", "Learning-rate schedule.")
    logging_steps: float = option(1, "Optimiser steps between two log lines.")
    gradient_checkpointing: bool | None = option(  # type: ignore[assignment,unused-ignore]
        None, "None: on where there is an accelerator."
    )
    dataloader_pin_memory: bool = option(False, "No tensors pass the data loader.")
