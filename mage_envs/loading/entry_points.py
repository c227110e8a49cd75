"""Entry points of the registered ids: functions of `wrappers` that assemble an environment, loaded by name."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any


def _call(module: str, name: str, **options: Any) -> Any:
    # The import is inside the call: `wrappers` is a layer above this package and imports it.
    return vars(import_module(module))[name](**options)


make_env = partial(_call, "mage_envs.wrappers.make", "make_env")
"""Entry point of `mage/<game>-v0`; see `mage_envs.wrappers.make.make_env`."""
make_meta_env = partial(_call, "mage_envs.wrappers.make", "make_meta_env")
"""Entry point of `mage/<game>-Meta-v0`; see `mage_envs.wrappers.make.make_meta_env`."""
make_envs = partial(_call, "mage_envs.wrappers.make_vec", "make_envs")
"""Entry point of `gym.make_vec("mage/<game>-v0")`; see `mage_envs.wrappers.make_vec`."""
make_meta_envs = partial(_call, "mage_envs.wrappers.make_vec", "make_meta_envs")
"""Entry point of `gym.make_vec("mage/<game>-Meta-v0")`; see `mage_envs.wrappers.make_vec`."""
