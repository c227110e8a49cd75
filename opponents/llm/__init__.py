"""Language models behind OpenAI-compatible endpoints: the opponent `llm:model@url` and its `Generator`.

    endpoint = EndpointGenerator("qwen3:4b", "http://localhost:11434/v1", max_tokens=512, budget=Budget(max_calls=1000))
    policy = LanguageModelPolicy(endpoint, game.spec, Plain())

The package requires `httpx2` (`pip install "mage-envs[endpoints]"`), which is imported at the first call.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mage_envs.opponents.llm.budget import Budget
    from mage_envs.opponents.llm.cache import AnswerCache
    from mage_envs.opponents.llm.endpoint import AnswerStream, EndpointGenerator
    from mage_envs.opponents.llm.endpoint_spec import language_model, shared_endpoints

__all__ = ["AnswerCache", "AnswerStream", "Budget", "EndpointGenerator", "language_model", "shared_endpoints"]

_MODULES = {
    "AnswerCache": "cache",
    "AnswerStream": "endpoint",
    "Budget": "budget",
    "EndpointGenerator": "endpoint",
    "language_model": "endpoint_spec",
    "shared_endpoints": "endpoint_spec",
}


def __getattr__(name: str) -> Any:
    # Lazy, because `import mage_envs.opponents` loads `llm.opponent`, and most users call no server.
    if name in _MODULES:
        return import_module(f"{__name__}.{_MODULES[name]}").__dict__[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
