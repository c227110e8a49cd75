"""Average policies of counterfactual regret minimisation, by OpenSpiel's C++ solvers, cached on disk if they are slow.

Files are in `$MAGE_ENVS_CACHE/cfr`, or in `~/.cache/mage-envs/cfr` if the variable is not set. Each is JSON with the
solver, the game string, the version of OpenSpiel, the iterations and a SHA-256 of the policy. If a file does not match,
the game is solved again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mage_envs.files.atomic import write_atomically
from mage_envs.files.cache import VARIABLE, cache_root
from mage_envs.opponents.search.openspiel import DoesNotSuit
from mage_envs.progress import Progress
from mage_envs.spiel.loading import load
from mage_envs.spiel.size import SMALL, count_histories

WORTH_KEEPING = 20_000_000
"""Minimum of histories times iterations for a solution to be stored on disk (about ten seconds of work)."""

AveragePolicy = Mapping[str, tuple[float, ...]]
"""Map from OpenSpiel's information state strings to the probabilities of its legal actions; each row sums to 1."""


def cache_folder() -> Path:
    """Return the folder of the stored solutions."""
    return cache_root() / "cfr"


def solver_steps(game: str, iterations: int) -> int:
    """Return the histories that iterations of CFR visit, or 0 for a game that it cannot solve."""
    return (count_histories(game, SMALL) or 0) * iterations


@lru_cache(maxsize=16)
def average_policy(game: str, iterations: int, solver: str) -> AveragePolicy:
    """Return the average policy of a game (1,000 iterations take 30 ms for Kuhn Poker and 2 s for Leduc).

    Args:
        game: OpenSpiel's game string.
        solver: pyspiel's class, `CFRSolver` or `CFRPlusSolver`.

    Raises:
        DoesNotSuit: If the game has more than `SMALL` histories, or no information state strings.
    """
    if not load(game).get_type().provides_information_state_string:
        raise DoesNotSuit(f"CFR cannot solve {game}: OpenSpiel has no information state strings for it.")
    histories = count_histories(game, SMALL)
    if histories is None:
        raise DoesNotSuit(
            f"CFR cannot solve {game}: it has more than {SMALL:,} histories. Use a search such as 'mcts'."
        )
    # OpenSpiel's version is part of the key, because another version may name information states differently.
    key = {"game": game, "iterations": iterations, "open_spiel": version("open_spiel"), "solver": solver}
    if histories * iterations < WORTH_KEEPING:
        return _solve(game, iterations, solver)
    path = cache_folder() / f"{sha256(_text(key).encode()).hexdigest()[:32]}.json"
    policy = _read(path, key)
    if policy is None:
        policy = _solve(game, iterations, solver)
        _write(path, key, policy)
    return policy


def _solve(game: str, iterations: int, solver: str) -> AveragePolicy:
    import pyspiel

    running = {"CFRSolver": pyspiel.CFRSolver, "CFRPlusSolver": pyspiel.CFRPlusSolver}[solver](load(game))
    tell = Progress(f"CFR solves {game}", iterations, "iterations")
    for iteration in range(1, iterations + 1):
        running.evaluate_and_update_policy()
        tell(iteration)
    # Sorting by action gives the order of `legal_actions`. Rows are normalised, because rounding may leave their sums
    # slightly off 1.
    table = running.tabular_average_policy().policy_table()
    rows = {state: [probability for _, probability in sorted(row)] for state, row in table.items()}
    return {state: tuple(probability / sum(rows[state]) for probability in rows[state]) for state in sorted(rows)}


def _text(data: object) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def _read(path: Path, key: Mapping[str, Any]) -> AveragePolicy | None:
    """Return the stored policy, or None if the file is missing, damaged or of another key."""
    try:
        data = json.loads(path.read_text("utf-8"))
        policy = data["policy"]
        is_valid = data["key"] == key and data["sha256"] == sha256(_text(policy).encode()).hexdigest()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return {state: tuple(row) for state, row in policy.items()} if is_valid else None


def _write(path: Path, key: Mapping[str, Any], policy: AveragePolicy) -> None:
    text = _text(policy)
    try:
        digest = sha256(text.encode()).hexdigest()
        write_atomically(path, f'{{"key":{_text(key)},"policy":{text},"sha256":"{digest}"}}')
    except OSError as error:
        raise OSError(f"CFR cannot write to {path.parent} ({error}). Set {VARIABLE} to another folder.") from error
