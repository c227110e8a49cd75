"""Meta-episodes: several episodes against one unknown opponent or of one task, with memory in between."""

from wrappers.memory import MEMORIES, EpisodicMemory, MemoryStrategy, MemoryView, as_memory
from wrappers.meta_episode import CONTEXTS, MetaEpisode
from wrappers.protocol import ADAPTIVE, PAPER, PROTOCOLS, Protocol, as_protocol

__all__ = [
    "ADAPTIVE",
    "CONTEXTS",
    "MEMORIES",
    "PAPER",
    "PROTOCOLS",
    "EpisodicMemory",
    "MemoryStrategy",
    "MemoryView",
    "MetaEpisode",
    "Protocol",
    "as_memory",
    "as_protocol",
]
