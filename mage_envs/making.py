"""What the ids name as their entry points: the functions of `wrappers` that assemble an environment, loaded by name."""

from __future__ import annotations

from typing import Any

from mage_envs import _siblings


def make_env(**options: Any) -> Any:
    """`mage/<game>-v0`: see `wrappers.make.make_env`."""
    return _siblings.load("wrappers.make").make_env(**options)


def make_meta_env(**options: Any) -> Any:
    """`mage/<game>-Meta-v0`: see `wrappers.make.make_meta_env`."""
    return _siblings.load("wrappers.make").make_meta_env(**options)


def make_envs(**options: Any) -> Any:
    """`gym.make_vec("mage/<game>-v0")`: see `wrappers.make_vec`."""
    return _siblings.load("wrappers.make_vec").make_envs(**options)


def make_meta_envs(**options: Any) -> Any:
    """`gym.make_vec("mage/<game>-Meta-v0")`: see `wrappers.make_vec`."""
    return _siblings.load("wrappers.make_vec").make_meta_envs(**options)
