"""Checks of options of `trl.ModelConfig` that depend on each other. No torch here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields
from importlib.util import find_spec

from trl.trainer.model_config import ModelConfig


def unread_of_model(model: ModelConfig) -> Iterator[str]:
    """Yield a message for each option of an adapter or of quantised weights that is set without these."""
    quantised = model.load_in_4bit or model.load_in_8bit
    which = "load_in_4bit" if model.load_in_4bit else "load_in_8bit"
    if model.load_in_4bit and model.load_in_8bit:
        yield "load_in_4bit and load_in_8bit exclude each other; choose one."
    if quantised and not model.use_peft:
        yield f"{which} freezes the weights, so only an adapter can be trained; add --use_peft true."
    if quantised and find_spec("bitsandbytes") is None:
        yield f"{which} needs bitsandbytes. Install it with: pip install bitsandbytes"
    for item in fields(ModelConfig):
        if item.default is MISSING or vars(model)[item.name] == item.default:
            continue
        if (item.name.startswith("lora_") or item.name in ("use_rslora", "use_dora")) and not model.use_peft:
            yield f"{item.name} requires --use_peft true."
        if item.name.startswith(("bnb_4bit", "use_bnb")) and not model.load_in_4bit:
            yield f"{item.name} requires --load_in_4bit true."
