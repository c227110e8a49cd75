"""One real vLLM on the CPU for all tests with it: `make vllm`. Tests whose engine is not installed are left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

NEEDS = {"vllm": "vllm", "deepspeed": "deepspeed", "lm": "llama_cpp"}
collect_ignore = [f"test_{tests}.py" for tests, package in NEEDS.items() if find_spec(package) is None]


@pytest.fixture(scope="session")
def one_engine() -> Iterator[None]:
    """Share one engine between the trainers of all tests.

    TRL makes one engine per trainer, which takes half a minute. The tests stay independent, because every trainer
    pushes its own weights into the engine.
    """
    from trl.generation import vllm_generation

    engines: list[Any] = []
    engine: Any = vllm_generation.LLM

    def once(**options: Any) -> Any:
        if not engines:
            engines.append(engine(**options))
        return engines[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vllm_generation, "LLM", once)
        take_weights(patch)
        yield


def take_weights(patch: pytest.MonkeyPatch) -> None:
    """Until `patch` is undone vLLM on the CPU keeps the weights of a layer, which it packs and drops by itself."""
    import torch
    from vllm.model_executor.layers import utils

    def unpack(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    if not torch.cuda.is_available():
        patch.setattr(utils, "dispatch_cpu_unquantized_gemm", unpack)
