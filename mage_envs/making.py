"""What the ids name as their entry points: the functions of `wrappers` that assemble an environment, loaded by name."""

from __future__ import annotations

from functools import partial
from typing import Any

from mage_envs import _siblings


def _called(module: str, name: str, **options: Any) -> Any:
    return vars(_siblings.load(module))[name](**options)


make_env = partial(_called, "wrappers.make", "make_env")
"""`mage/<game>-v0`: see `wrappers.make.make_env`."""
make_meta_env = partial(_called, "wrappers.make", "make_meta_env")
"""`mage/<game>-Meta-v0`: see `wrappers.make.make_meta_env`."""
make_envs = partial(_called, "wrappers.make_vec", "make_envs")
"""`gym.make_vec("mage/<game>-v0")`: see `wrappers.make_vec`."""
make_meta_envs = partial(_called, "wrappers.make_vec", "make_meta_envs")
"""`gym.make_vec("mage/<game>-Meta-v0")`: see `wrappers.make_vec`."""
