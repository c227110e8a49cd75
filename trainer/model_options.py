"""Options of `trl.ModelConfig` that belong together: refused where one is set without the other. No torch here."""

from __future__ import annotations

from dataclasses import MISSING, fields
from importlib.util import find_spec

from trl.trainer.model_config import ModelConfig


def unread_of_model(model: ModelConfig) -> list[tuple[bool, str]]:
    """(whether it was set, what to say): what belongs to an adapter or to quantised weights, without these."""
    quantised = model.load_in_4bit or model.load_in_8bit
    which = "load_in_4bit" if model.load_in_4bit else "load_in_8bit"
    rules = [
        (model.load_in_4bit and model.load_in_8bit, "load_in_4bit and load_in_8bit exclude each other; choose one."),
        (
            quantised and not model.use_peft,
            f"{which} freezes the weights, so that an adapter alone can be trained; add --use_peft true.",
        ),
        (
            quantised and find_spec("bitsandbytes") is None,
            f"{which} needs bitsandbytes. Install it with: pip install bitsandbytes",
        ),
    ]
    for item in fields(ModelConfig):
        changed = item.default is not MISSING and vars(model)[item.name] != item.default
        if item.name.startswith("lora_") or item.name in ("use_rslora", "use_dora"):
            rules.append((changed and not model.use_peft, f"{item.name} is read with --use_peft true alone."))
        if item.name.startswith(("bnb_4bit", "use_bnb")):
            rules.append((changed and not model.load_in_4bit, f"{item.name} is read with --load_in_4bit true alone."))
    return rules
