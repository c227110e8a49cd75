"""`ThroughputFields`: what may spare work between the sampler and the updates. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ThroughputFields:
    """Part of a run's fields."""

    rollout_ahead: int = field(
        default=0, metadata={"help": "1: the next rollout is played while this one is trained on."}
    )
    dynamic_sampling: int = field(
        default=0, metadata={"help": "Times that groups without variance are dropped and redrawn; 0: off."}
    )
    reuse_sampling_logprobs: bool = field(
        default=False,
        metadata={"help": "Take the sampler's log-probabilities as the old ones, without a scoring pass."},
    )
    reuse_mismatch: float = field(
        default=0.02, metadata={"help": "With vLLM: most mean |log p - log q| at which they are taken."}
    )
