"""FSDP2 in CPU processes, for the tests: accelerate reads its FSDP settings on accelerators alone."""

from __future__ import annotations

from typing import Any

from accelerate import PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

STATE_DICTS = ("FULL_STATE_DICT", "SHARDED_STATE_DICT")


def shard_on_cpu(state_dict_type: str = STATE_DICTS[0]) -> None:
    """For good: the process is a fork that ends soon."""
    initialise = AcceleratorState.__init__

    def patch(self: Any, *arguments: Any, **options: Any) -> None:
        initialise(self, *arguments, **options)
        for state in (PartialState, AcceleratorState):
            state._shared_state["distributed_type"] = DistributedType.FSDP
        self.fsdp_plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2,
            auto_wrap_policy="transformer_based_wrap",
            transformer_cls_names_to_wrap=["Qwen3DecoderLayer"],
            reshard_after_forward=True,
            state_dict_type=state_dict_type,
            cpu_ram_efficient_loading=False,
        )

    AcceleratorState.__init__ = patch  # type: ignore[method-assign]
