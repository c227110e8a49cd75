"""Registries of the method's parts: advantages, returns, policy losses and KL estimators. No torch here.

The built-in parts are entry points, which are imported on first use: a dry run checks names without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

from mage_envs.loading.imports import import_path, load_entry, load_function

F = TypeVar("F", bound=Callable[..., Any])


class Registry:
    """Functions of one kind by name.

    A user registers a function, or names it as `module:function` in the option.
    """

    def __init__(self, option: str, entry_points: Mapping[str, str]) -> None:
        """`option` is the field of the run that selects a function; `entry_points` are the built-in ones."""
        self.option = option
        self._entries: dict[str, str | Callable[..., Any]] = dict(entry_points)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def register(self, name: str, function: Callable[..., Any]) -> None:
        """Add a function. Raises ValueError if the name is taken by another one, or contains a colon."""
        if not name or ":" in name:
            raise ValueError(f"{name!r} cannot name a function for {self.option}; use a name without a colon.")
        existing_entry = self._entries.get(name)
        # Registering the same function again is allowed, because a notebook or importlib.reload runs a module twice.
        if existing_entry is not None and import_path(existing_entry) != import_path(function):
            raise ValueError(
                f"{self.option}={name!r} is already registered, by {import_path(existing_entry)}; choose another name."
            )
        self._entries[name] = function

    def decorator(self, name: str) -> Callable[[F], F]:
        """Return a decorator that registers a function under the name."""

        def add(function: F) -> F:
            self.register(name, function)
            return function

        return add

    def find(self, name: str) -> Callable[..., Any]:
        """Return the function of a registered name or of `module:function`.

        Raises:
            ValueError: If the name is unknown.
            ImportError: If the module or the function does not exist.
            TypeError: If `module:function` is not a function written in Python.
            UntrustedName: If the name comes from a file and the user did not import the module.
        """
        if name not in self._entries:
            if ":" not in name:
                raise ValueError(
                    f"{self.option}={name!r} is unknown; choose one of: {', '.join(self)}, or name your own function "
                    "as module:function."
                )
            return load_function(name)
        entry = self._entries[name]
        if isinstance(entry, str):
            # Resolved once: the loss looks its function up in every micro-batch.
            entry = self._entries[name] = load_entry(entry)
        return entry

    def check(self, name: str) -> None:
        """Raise what `find` raises for the name. A built-in part is not imported for that."""
        if name not in self._entries:
            self.find(name)


ADVANTAGES = Registry(
    "advantage",
    {
        "gigpo": "mage_envs.trainer.method.advantages:gigpo",
        "grpo": "mage_envs.trainer.method.advantages:grpo",
        "rloo": "mage_envs.trainer.method.advantages:rloo",
        "member_mean": "mage_envs.trainer.method.advantages:member_mean",
        "exact": "mage_envs.trainer.method.advantages:exact",
    },
)
RETURNS = Registry(
    "returns",
    {
        "differential": "mage_envs.trainer.method.returns:differential_rewards",
        "cumulative": "mage_envs.trainer.method.returns:cumulative",
        "single_episode": "mage_envs.trainer.method.returns:single_episode",
        "final": "mage_envs.trainer.method.returns:final",
    },
)
POLICY_LOSSES = Registry(
    "policy",
    {
        "ppo": "mage_envs.trainer.method.loss:ppo",
        "gspo_step": "mage_envs.trainer.method.loss:gspo_step",
        "cispo": "mage_envs.trainer.method.loss:cispo",
    },
)
KL_ESTIMATORS = Registry(
    "kl_estimator",
    {
        "k1": "mage_envs.trainer.method.loss:k1",
        "k2": "mage_envs.trainer.method.loss:k2",
        "k3": "mage_envs.trainer.method.loss:k3",
    },
)


def register_advantage(name: str, *, per_opponent: bool = False) -> Callable[[F], F]:
    """Register an advantage estimator.

    The function receives a group, a list of M `Trajectory`, and the `CreditConfig`. It returns one number per step,
    [M][T_m]. Failed trajectories are not in the group.

    Args:
        name: Name for `--advantage`.
        per_opponent: True if `advantage_norm="mean_std"` divides its numbers by their standard deviation over all
            groups of the opponent, after the function returned. Otherwise the function normalises by itself.
    """

    def add(function: F) -> F:
        # A wrapper, because the same function may be registered under a second name with another value.
        @wraps(function)
        def estimator(group: Sequence[Any], config: Any) -> Any:
            return function(group, config)

        ADVANTAGES.register(name, divided_by_opponent(estimator) if per_opponent else estimator)
        return function

    return add


def divided_by_opponent(function: F) -> F:
    """Mark an estimator whose numbers `advantage_norm="mean_std"` divides by their deviation per opponent."""
    function.__dict__["divided_by_opponent"] = True
    return function


def is_divided_by_opponent(function: Callable[..., Any]) -> bool:
    """Return True if the estimator has this mark."""
    return bool(function.__dict__.get("divided_by_opponent"))


def register_returns(name: str, *, crosses_episodes: bool = True) -> Callable[[F], F]:
    """Register a scheme of returns.

    The function maps the episode rewards R_k, (K,), to the D_k of equation 7, (K,).

    Args:
        name: Name for `--returns`.
        crosses_episodes: True if later episodes count in earlier returns; otherwise gamma_episode has no effect.
    """

    def add(function: F) -> F:
        # A wrapper, because the same function may be registered under a second name with another value.
        @wraps(function)
        def scheme(rewards: Sequence[float]) -> list[float]:
            return list(function(rewards))

        scheme.__dict__["crosses_episodes"] = crosses_episodes
        RETURNS.register(name, scheme)
        return function

    return add


def register_policy_loss(name: str) -> Callable[[F], F]:
    """Register a policy loss.

    The function receives the ratio p / p_old, the log-probabilities with gradient, the advantages, all (N,) over the
    trained tokens, and the `LossTerms`. It returns the loss of each token, (N,).
    """
    return POLICY_LOSSES.decorator(name)


def register_kl(name: str) -> Callable[[F], F]:
    """Register an estimator of the KL divergence to the reference model.

    The function maps the gap log q - log p, (N,), of reference q and model p, to one estimate per token, (N,).
    """
    return KL_ESTIMATORS.decorator(name)
