"""Silence of the underlying libraries, in a module of its own: it needs no settings of a training."""

from __future__ import annotations

import os
import warnings


def quieten() -> None:
    """Silence progress bars and advice of the underlying libraries, in this process and in those that it starts."""
    # Environment variables, so that worker processes inherit them. A user's own value wins.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    warnings.filterwarnings("ignore", module="transformers|trl|torch|accelerate|peft")
