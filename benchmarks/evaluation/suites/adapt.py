"""The cells of the suite `adapt`: games and pools in which memory of earlier episodes is worth an exact amount.

`python -m dev.adapt_cells` computes the table of candidates from which they were chosen
(benchmarks/results/adapt_cells.txt).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mage_envs.benchmarks.evaluation.suites.pool_texts import description_of
from mage_envs.registry import make_game, settings_of

ADAPT_SUITES = ("adapt", "adapt-mini", "adapt-learning")
"""Suites of `mage adapt`."""
META_EPISODES = 50
"""Minimum number of meta-episodes of a cell. The number is rounded up, so that each opponent is met equally often."""
MINI_META_EPISODES = 24
"""The same for `adapt-mini`."""
EPISODES = 3
"""Number of episodes of every cell."""
ADAPT = "adapt-"
"""Beginning of the names of the suite's panels."""
MINI_ADAPT = f"{ADAPT}mini-"
REFERENCES = ("random", "nash", "no-memory", "myopic", "bayes", "counting")
"""Policies that `policy:NAME` plays in every cell with the arguments of its pool.

Of these, `random`, `nash` and `counting` know the rules alone; the others know the pool, too. `counting` is a learner
with a Dirichlet prior over the play of its opponent.
"""
LEARNING_REFERENCES = ("random", "nash", "no-memory", "stationary", "myopic", "bayes", "counting")
"""The references of `adapt-learning`. `stationary` knows the pool, and believes that no opponent learns or changes."""
NAMED = (*REFERENCES, "blind", "stationary")
"""Names in place of a policy: the references, and `blind`, which forgets even the earlier hands of its episode."""


DISPLAY = ("memory", "context", "style")
"""Options that an agent may choose in a cell. They change what it reads, and neither the game nor a payoff."""


@dataclass(frozen=True, kw_only=True)
class AdaptCell:
    """One game against one pool."""

    game: str
    pool: str
    """Name of a registered pool, or of one opponent."""
    family: str = ""
    """Cells of one family share one weight in the mean, so that variants of a game do not count more than another."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the game."""
    hands: int = 1
    """Hands per episode."""
    seed: int
    """Seed of the panel."""
    nash: str = ""
    """Opponent that plays an equilibrium of the game; empty if the suite ships none."""
    about: str = ""
    control: bool = False
    """True for a negative control: exact headroom 0, and no score."""
    success: bool = False
    """True if success is the measure of a negative control, else the return."""
    single: bool = False
    """True if `pool` is the name of a single opponent."""
    players: Mapping[str, str] = field(default_factory=dict)
    """References that are players of the game's own; the suite ships no others for such a cell, besides `random`."""
    counts: bool = True
    """True if `counting` plays the cell. In a large tree, a best response for each hand takes seconds."""
    learns: bool = False
    """True if opponents of the pool learn or change between episodes."""

    @property
    def opponents(self) -> str | Mapping[str, float]:
        """Return the opponents as a panel names them."""
        return {self.pool: 1.0} if self.single else f"pool:{self.pool}"

    @property
    def seats(self) -> Sequence[int]:
        """Return the learner's possible first seats."""
        return (0,) if settings_of(self.game).seat == "first" else (0, 1)

    def env_kwargs(self) -> dict[str, Any]:
        """Return the options of the environment."""
        defaults = {"protocol": "adaptive", "num_episodes": EPISODES, "hands_per_episode": self.hands}
        return {**defaults, **self.options}

    def rules(self) -> str:
        """Return the rules of the game followed by the description of the pool."""
        return f"{make_game(self.game, **self.options).spec.rules} {description_of(self.pool)}"

    def agent(self, reference: str) -> str | None:
        """Return the specification of one of `NAMED` in this cell, or None if the suite ships none."""
        if reference == "random":
            return "scripted:random"
        if self.players:
            return f"policy:{self.players[reference]}" if reference in self.players else None
        if reference == "counting":
            return "policy:counting" if self.counts else None
        if reference == "nash":
            return f"policy:{self.nash}" if self.nash else None
        if reference == "stationary":
            return f"policy:stationary:{self.pool},{EPISODES},{self.hands}" if self.learns else None
        if self.learns and reference in ("blind", "no-memory"):
            return f"policy:blind:{self.pool},{EPISODES}"
        if self.single:
            # Against a single opponent all three are the best response.
            return f"policy:best-response-to:{self.pool}"
        if reference == "blind":
            return f"policy:blind:{self.pool}"
        if reference == "no-memory":
            # The best learner of a single episode begins anew in each one.
            return f"policy:bayes:{self.pool},1,{self.hands},sum"
        return f"policy:{reference}:{self.pool},{EPISODES},{self.hands}" + (",sum" if reference == "bayes" else "")


CELLS: Mapping[str, AdaptCell] = {
    "dilemma": AdaptCell(
        game="PrisonersDilemma",
        family="dilemma",
        pool="pd/classic",
        seed=101,
        nash="pd/all-d",
        about="prisoner's dilemma of 5 rounds",
    ),
    "dilemma3": AdaptCell(
        game="PrisonersDilemma",
        family="dilemma",
        pool="pd/classic",
        options={"rounds": 3},
        seed=102,
        nash="pd/all-d",
        about="prisoner's dilemma of 3 rounds",
    ),
    "noisy": AdaptCell(
        game="PrisonersDilemma",
        family="dilemma",
        pool="pd/classic",
        options={"rounds": 2, "noise": 0.1},
        seed=103,
        nash="pd/all-d",
        about="prisoner's dilemma of 2 rounds with 10% noise",
    ),
    "ultimatum": AdaptCell(
        game="Ultimatum",
        family="ultimatum",
        pool="ultimatum/reserves",
        seed=104,
        nash="ultimatum/reserve:1",
        about="ultimatum game with a hidden price",
    ),
    "offers": AdaptCell(
        game="Ultimatum",
        family="ultimatum",
        pool="ultimatum/reserves",
        options={"offers": 2},
        seed=105,
        nash="ultimatum/reserve:1",
        about="the same with two offers a hand",
    ),
    "soft": AdaptCell(
        game="Ultimatum",
        family="ultimatum",
        pool="ultimatum/soft-reserves",
        seed=106,
        nash="ultimatum/reserve:1",
        about="the same with prices that are kept in nine of ten cases",
    ),
    "inspection": AdaptCell(
        game="Inspection",
        family="inspection",
        pool="inspect/habits",
        seed=107,
        nash="inspect/nash",
        about="inspection game against habits",
    ),
    "rps": AdaptCell(
        game="RockPaperScissors",
        family="rps",
        pool="rps/soft-reactive",
        seed=108,
        nash="uniform",
        about="rock, paper, scissors against reactions",
    ),
    "bargaining": AdaptCell(
        game="Bargaining",
        family="bargaining",
        pool="bargain/mixed",
        options={"offers": 3},
        hands=2,
        seed=117,
        about="bargaining over 3 offers, two hands an episode, against four ways to concede or not",
        counts=False,
    ),
    "kuhn": AdaptCell(
        game="KuhnPoker",
        family="poker",
        pool="kuhn/paper",
        hands=3,
        seed=110,
        nash="kuhn/nash",
        about="Kuhn Poker, chips, three hands an episode",
    ),
    "leduc": AdaptCell(
        game="LeducPoker",
        family="poker",
        pool="leduc/four",
        hands=2,
        seed=118,
        nash="cfr",
        about="Leduc Poker, chips, two hands an episode, four archetypes",
    ),
    "encounters": AdaptCell(
        game="Encounters",
        family="encounters",
        pool="encounters/all",
        options={"games": ("chicken", "offer", "throw")},
        seed=119,
        about="one person in chicken, in the ultimatum game and in rock, paper, scissors",
    ),
    "keys": AdaptCell(
        game="SokobanControls",
        family="keys",
        pool="controls/all",
        options={"slack": 0, "split": "eval"},
        seed=116,
        about="Sokoban with unknown keys, one wiring in three rooms",
        players={
            "no-memory": "controls/blind",
            "blind": "controls/blind",
            "myopic": "controls/memory",
            "bayes": "controls/bayes",
        },
    ),
    "success": AdaptCell(
        game="KuhnPoker",
        pool="kuhn/paper",
        seed=113,
        nash="kuhn/nash",
        about="Kuhn Poker, hands won",
        control=True,
        success=True,
    ),
    "patterns": AdaptCell(
        game="TicTacToe", pool="tictactoe/patterns", seed=114, about="Tic-Tac-Toe against six patterns", control=True
    ),
    "alone": AdaptCell(
        game="PrisonersDilemma",
        pool="pd/tit-for-tat",
        options={"rounds": 3},
        seed=115,
        nash="pd/all-d",
        about="a pool of one: tit-for-tat",
        control=True,
        single=True,
    ),
}
"""Name of a cell to the cell, the negative controls last."""
LEARNING_CELLS: Mapping[str, AdaptCell] = {
    "pennies": AdaptCell(
        game="MatchingPennies",
        family="pennies",
        pool="pennies/learners",
        seed=301,
        nash="uniform",
        learns=True,
        about="matching pennies of 3 rounds, four ways to learn",
    ),
    "throws": AdaptCell(
        game="RockPaperScissors",
        family="throws",
        pool="rps/learners",
        options={"rounds": 2},
        seed=302,
        nash="uniform",
        learns=True,
        about="rock, paper, scissors of 2 rounds, two learners and a habit",
    ),
    "grudges": AdaptCell(
        game="PrisonersDilemma",
        family="dilemma",
        pool="pd/changing",
        options={"rounds": 3},
        seed=303,
        nash="pd/all-d",
        learns=True,
        about="prisoner's dilemma of 3 rounds, one of four never forgives",
    ),
    "forgives": AdaptCell(
        game="PrisonersDilemma",
        family="dilemma",
        pool="pd/forgiving",
        options={"rounds": 3},
        seed=308,
        nash="pd/all-d",
        learns=True,
        about="prisoner's dilemma of 3 rounds, an insult is forgotten after the episode or never",
    ),
    "moods": AdaptCell(
        game="Ultimatum",
        family="ultimatum",
        pool="ultimatum/moods",
        seed=304,
        nash="ultimatum/reserve:1",
        learns=True,
        about="ultimatum game, prices that move with each answer",
    ),
    "moods2": AdaptCell(
        game="Ultimatum",
        family="ultimatum",
        pool="ultimatum/moods",
        options={"offers": 2},
        seed=305,
        nash="ultimatum/reserve:1",
        learns=True,
        about="the same with two offers a hand",
    ),
    "traps": AdaptCell(
        game="KuhnPoker",
        family="poker",
        pool="kuhn/learners",
        seed=306,
        nash="kuhn/nash",
        learns=True,
        about="Kuhn Poker, chips: one tight, one sets a trap, one learns to call",
    ),
    "turns": AdaptCell(
        game="PrisonersDilemma",
        family="dilemma",
        pool="pd/turning",
        options={"rounds": 3},
        seed=307,
        nash="pd/all-d",
        learns=True,
        about="prisoner's dilemma of 3 rounds, opponents that turn into others",
    ),
}
"""Name of a cell of `adapt-learning` to the cell. Level 0 is the best plan of an episode, the same in every one."""
ALL_CELLS: Mapping[str, AdaptCell] = {**CELLS, **LEARNING_CELLS}
"""Cells of all suites by name."""
MINI = ("noisy", "ultimatum", "soft", "kuhn")
"""Cells of `adapt-mini`."""


def cell_of(panel: str) -> AdaptCell | None:
    """Return the cell of a panel's name without a size, or None if it is another panel."""
    for prefix in (MINI_ADAPT, ADAPT):
        if panel.startswith(prefix) and panel.removeprefix(prefix) in ALL_CELLS:
            return ALL_CELLS[panel.removeprefix(prefix)]
    return None
