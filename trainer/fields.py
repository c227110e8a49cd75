"""`RunFields`: the fields of a training run that are this package's own, and those of TRL's that it sets or checks.

No torch here: a dry run resolves presets, files and flags with these alone. `trainer.config.MAGEConfig` adds all others
of `trl.GRPOConfig`. Options of the environment that are None are left to what makes it, which has the defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mage_envs.processes import DEADLINE
from trainer.advantages import CreditConfig
from trainer.throughput import ThroughputFields


def _help(text: str) -> dict[str, str]:
    return {"help": text}


@dataclass
class RunFields(ThroughputFields):
    """The method's fields and defaults (docs/method.md section 5).

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
    protocol: str | None = field(default=None, metadata=_help("adaptive (the default) or paper."))
    num_episodes: int | None = field(default=None, metadata=_help("Episodes per meta-episode (K); 3 by default."))
    memory: str | None = field(
        default=None, metadata=_help("A name of mage-envs list, or module:Class; reflection by default.")
    )
    context: str | None = field(
        default=None, metadata=_help("rebuilt (fresh prompts, the default) or conversation (one chat).")
    )
    prompt_style: str | None = field(default=None, metadata=_help("Registered prompt style; prose by default."))
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

    # -- evaluation and log ---------------------------------------------------------------------------------
    eval_panel: str | None = field(default=None, metadata=_help("A panel of mage-bench list, played in training."))
    eval_every: int = field(default=10, metadata=_help("Rollouts between two evaluations, where there is a panel."))
    eval_temperature: float | None = field(
        default=None, metadata=_help("In evaluations; None: 0.7 under the protocol paper, else temperature.")
    )
    eval_top_p: float | None = field(default=None, metadata=_help("The same: 0.8 under paper, else 1."))
    eval_top_k: int | None = field(default=None, metadata=_help("The same: 20 under paper, else 0 (all)."))
    early_stop: int = field(
        default=0, metadata=_help("Evaluations in a row without a new best score that end the run; 0: never.")
    )
    logging_strategy: str = field(default="steps", metadata=_help("steps; no: nothing is shown or sent to trackers."))
    verbose: bool = field(default=False, metadata=_help("More lines for each rollout."))
    log_transcripts: int = field(default=2, metadata=_help("Meta-episodes per rollout kept in transcripts.jsonl."))

    # -- credit ---------------------------------------------------------------------------------------------
    returns: str = field(
        default=CreditConfig.returns, metadata=_help("differential, cumulative, single_episode, final.")
    )
    credit: str | None = field(
        default=None, metadata=_help("episode, reward; None: reward for member_mean and several hands, else episode.")
    )
    gamma_step: float = field(default=CreditConfig.gamma_step, metadata=_help("gs, per play step."))
    gamma_episode: float = field(
        default=CreditConfig.gamma_episode,
        metadata=_help("gt, across episodes: 0.6 weighs three episodes 0.40/0.24/0.36, 1 only the last."),
    )
    advantage: str = field(default=CreditConfig.advantage, metadata=_help("gigpo, grpo, rloo, member_mean, exact."))
    horizon: str = field(
        default=CreditConfig.horizon,
        metadata=_help("Of advantage=exact: hand, or meta (adds the sampled rest of the meta-episode)."),
    )
    anchor: str = field(default=CreditConfig.anchor, metadata=_help("global or local."))
    advantage_norm: str = field(default=CreditConfig.advantage_norm, metadata=_help("mean or mean_std."))
    step_weight: float = field(default=CreditConfig.step_weight, metadata=_help("w of A = A_E + w A_S."))
    statistics: str = field(default=CreditConfig.statistics, metadata=_help("agent or pooled."))
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
    max_tokens_per_generation: int = field(
        default=65_536,
        metadata=_help("Tokens, replies at their longest, that transformers generates together; 0: all."),
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

    policy: str = field(default="ppo", metadata=_help("ppo, gspo_step (one ratio per model call), cispo."))
    kl_estimator: str = field(default="k3", metadata=_help("Of the KL to the reference: k1, k2, k3."))
    normalise: str = field(
        default="tokens", metadata=_help("Mean over tokens, over steps (model calls), or none (Dr. GRPO).")
    )

    # -- TRL's fields with its defaults: those that presets, hardware and checks name -------------------------
    output_dir: str | None = field(default=None, metadata=_help("Folder of the run."))
    seed: int = field(default=42, metadata=_help("Seed of the run."))
    use_cpu: bool = field(default=False, metadata=_help("Train on the CPU."))
    bf16: bool | None = field(default=None, metadata=_help("bf16 mixed precision; None: where there is a GPU."))
    fp16: bool = field(default=False, metadata=_help("fp16 mixed precision."))
    max_steps: int = field(default=-1, metadata=_help("Optimiser steps of the run; -1: by max_rollouts."))
    per_device_train_batch_size: int = field(default=8, metadata=_help("Meta-episodes per process and rollout."))
    per_device_eval_batch_size: int = field(
        default=8, metadata=_help("Meta-episodes of an evaluation played together.")
    )
    learning_rate: float = field(default=1e-6, metadata=_help("AdamW's learning rate."))
    adam_beta2: float = field(default=0.999, metadata=_help("AdamW's second beta."))
    max_grad_norm: float = field(default=1.0, metadata=_help("Gradient clip."))
    beta: float = field(default=0.0, metadata=_help("Weight of the KL to the reference model; 0: no such model."))
    epsilon: float = field(default=0.2, metadata=_help("Clip range of the ratio."))
    epsilon_high: float | None = field(default=None, metadata=_help("Upper clip range; None: epsilon."))
    temperature: float = field(default=1.0, metadata=_help("Of sampling in training."))
    save_strategy: str = field(default="steps", metadata=_help("steps, or no."))
    save_steps: float = field(default=500, metadata=_help("Optimiser steps between two checkpoints."))
    save_total_limit: int | None = field(default=None, metadata=_help("Sound checkpoints that are kept; None: all."))
    report_to: list[str] = field(
        default_factory=lambda: ["none"], metadata=_help("Trackers: trackio, wandb, tensorboard, ...; none; all.")
    )
    disable_tqdm: bool | None = field(default=None, metadata=_help("No line that is redrawn on a terminal."))
    use_vllm: bool = field(default=False, metadata=_help("Replies by vLLM."))
    vllm_mode: str = field(default="colocate", metadata=_help("colocate or server."))
    vllm_gpu_memory_utilization: float = field(default=0.3, metadata=_help("Share of a GPU's memory for vLLM."))
    vllm_tensor_parallel_size: int = field(default=1, metadata=_help("GPUs that share a vLLM engine."))
    vllm_enable_sleep_mode: bool = field(default=False, metadata=_help("vLLM gives its memory back in updates."))
    vllm_max_model_length: int | None = field(default=None, metadata=_help("Tokens of a prompt and its reply."))

    # -- TRL's fields with other defaults -------------------------------------------------------------------
    num_generations: int | None = field(default=8, metadata=_help("Group size: meta-episodes per group."))
    num_generations_eval: int | None = field(default=1, metadata=_help("Meta-episodes per evaluation task."))
    max_completion_length: int | None = field(default=1024, metadata=_help("Reply limit in tokens."))
    loss_type: str = field(default="dapo", metadata=_help("TRL's; here policy and normalise say it."))
    delta: float | None = field(default=3.0, metadata=_help("Dual clip."))
    use_bias_correction_kl: bool = field(default=False, metadata=_help("Weigh the KL by the ratio."))
    vllm_importance_sampling_mode: str = field(
        default="token_truncate", metadata=_help("token_ or sequence_ (a model call), truncate or mask.")
    )
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
