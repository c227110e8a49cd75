"""The repeated games and their pools: exact values, from an independent program (docs/headroom.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mage_envs import make_game
from mage_envs.opponents import as_pool
from mage_envs.opponents.exact import bayes_value, best_nonadaptive, best_response, policy_value

POOLS = [
    ("PrisonersDilemma", {}, "pd/classic", 3.240, 2.880),
    ("PrisonersDilemma", {"rounds": 3}, "pd/classic", 3.400, 3.067),
    ("PrisonersDilemma", {"rounds": 2, "noise": 0.1}, "pd/classic", 3.358, 3.058),
    ("Ultimatum", {}, "ultimatum/reserves", 0.550, 0.3125),
    ("Ultimatum", {"offers": 2}, "ultimatum/reserves", 0.550, 0.35625),
    ("RockPaperScissors", {"rounds": 3}, "rps/biased", 0.400, 0.117),
    ("RockPaperScissors", {"rounds": 3}, "rps/strongly-biased", 0.700, 0.343),
    ("RockPaperScissors", {}, "rps/reactive", 0.750, 0.521),
    ("RockPaperScissors", {}, "rps/soft-reactive", 3 * 0.775 / 4, 0.336),
    ("Inspection", {}, "inspect/habits", (5 + 0.7 / 3 + 0.2) / 7, 0.342857),
    ("Inspection", {}, "inspect/four", (1 + 0.4 + 0.7 / 3 + 0.2) / 4, 0.45),
]
"""Game, options, pool; the best that knows the opponent, the best that does not, both in the first seat."""


@pytest.mark.parametrize(("name", "options", "pool", "known_value", "blind"), POOLS)
def test_known_and_blind(name: str, options: Mapping[str, Any], pool: str, known_value: float, blind: float) -> None:
    game, mixture = make_game(name, **options), as_pool(f"pool:{pool}")
    response_values = [best_response(game, entry, 0).value for entry in mixture.entries]
    assert sum(w * v for w, v in zip(mixture.weights, response_values, strict=True)) == pytest.approx(
        known_value, abs=5e-4
    )
    assert best_nonadaptive(game, mixture, 0).value == pytest.approx(blind, abs=5e-4)


@pytest.mark.parametrize(
    ("name", "options", "pool", "cumulative"),
    [
        ("PrisonersDilemma", {}, "pd/classic", (2.720, 3.240, 3.240)),
        ("PrisonersDilemma", {"rounds": 3}, "pd/classic", (2.867, 3.400, 3.400)),
        ("PrisonersDilemma", {"rounds": 2, "noise": 0.1}, "pd/classic", (3.032, 3.269, 3.296)),
        ("Ultimatum", {}, "ultimatum/reserves", (0.300, 0.400, 0.450)),
        ("Ultimatum", {"offers": 2}, "ultimatum/reserves", (0.331, 0.456, 0.537)),
        ("RockPaperScissors", {"rounds": 3}, "rps/biased", (0.117, 0.249, 0.305)),
        ("RockPaperScissors", {"rounds": 3}, "rps/strongly-biased", (0.343, 0.639, 0.685)),
        ("RockPaperScissors", {}, "rps/reactive", (0.521, 0.736, 0.745)),
    ],
)
def test_three_episodes_at_their_best(
    name: str, options: Mapping[str, Any], pool: str, cumulative: tuple[float, ...]
) -> None:
    value = bayes_value(make_game(name, **options), f"pool:{pool}", seat="first")
    assert value.total == pytest.approx(sum(cumulative), abs=2e-3), "how it is spread may differ: there are ties"


def test_success_is_the_games_own() -> None:
    """Every return of these games is positive; what counts as a success is not."""
    game = make_game("PrisonersDilemma")
    wins = {name: best_response(game, f"pd/{name}", 0, "success").value for name in ("all-d", "all-c", "grim")}
    assert wins == {"all-d": 0, "all-c": 1, "grim": 1}
    assert policy_value(game, ["pd/all-d", "pd/tit-for-tat"], "success") == (0, 0)
    pies = make_game("Ultimatum")
    assert best_nonadaptive(pies, "pool:ultimatum/reserves", 0, "success").value == 5 / 8, "half of the pie at most"
