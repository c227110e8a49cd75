"""Meta-episodes: several episodes against one unknown opponent, or of one task, with a memory between them."""

if __name__ == "wrappers":
    # Imported from a clone by the name of its folder.
    from mage_envs.loading.folders import use_own_name

    use_own_name(__name__)


from mage_envs.wrappers.memories import (
    MemorySpec,
    as_memory,
    list_memories,
    memory_settings,
    refuse_instance,
    register_memory,
)
from mage_envs.wrappers.memory import Answer, EpisodicMemory, Memory, MemoryView, Request
from mage_envs.wrappers.meta_episode import CONTEXTS, MetaEpisode
from mage_envs.wrappers.protocol import ADAPTIVE, PAPER, PROTOCOLS, Protocol, as_protocol

__all__ = [
    "ADAPTIVE",
    "CONTEXTS",
    "PAPER",
    "PROTOCOLS",
    "Answer",
    "EpisodicMemory",
    "Memory",
    "MemorySpec",
    "MemoryView",
    "MetaEpisode",
    "Protocol",
    "Request",
    "as_memory",
    "as_protocol",
    "list_memories",
    "memory_settings",
    "refuse_instance",
    "register_memory",
]
