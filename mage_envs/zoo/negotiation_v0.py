"""Negotiation for PettingZoo: `env()` wrapped, `raw_env()` bare."""

from functools import partial

from mage_envs.aec import TextGameAEC
from mage_envs.aec import env as make

env = partial(make, "Negotiation")
raw_env = partial(TextGameAEC, "Negotiation")
