"""Dropout of a model, which would move the ratio of an update off 1."""

from __future__ import annotations

from torch import nn


def disable_dropout(model: nn.Module) -> None:
    """Set every probability of dropout in a model to 0, in its modules and in the configs that they read.

    TRL's option `disable_dropout` reaches modules of the class `nn.Dropout` only. Most attention layers drop weights by
    a number of their own, such as `attention_dropout` or `resid_pdrop`.
    """
    for module in model.modules():
        configs = (value for name, value in vars(module).items() if name == "config")
        for owner in (module, *configs):
            for name, value in vars(owner).items():
                if isinstance(value, float) and ("drop" in name or (name == "p" and isinstance(owner, nn.Dropout))):
                    setattr(owner, name, 0.0)
