"""Silence of the libraries underneath. A module of its own: whoever asks for it needs no settings of a training."""

from __future__ import annotations

import os
import warnings


def quieten() -> None:
    """Silences the bars and the advice of the libraries underneath, in this process and those that it starts."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    warnings.filterwarnings("ignore", module="transformers|trl|torch|accelerate|peft")
