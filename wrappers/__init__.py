"""Meta-episodes: several episodes against one unknown opponent, or of one task, with a memory between them."""

from wrappers.memories import MemorySpec, as_memory, list_memories, memory_settings, refuse_instance, register_memory
from wrappers.memory import Answer, EpisodicMemory, MemoryStrategy, MemoryView, Request
from wrappers.meta_episode import CONTEXTS, MetaEpisode
from wrappers.protocol import ADAPTIVE, PAPER, PROTOCOLS, Protocol, as_protocol

__all__ = [
    "ADAPTIVE",
    "CONTEXTS",
    "PAPER",
    "PROTOCOLS",
    "Answer",
    "EpisodicMemory",
    "MemorySpec",
    "MemoryStrategy",
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
