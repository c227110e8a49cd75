"""Registration by entry point of the built-in opponents that serve several games: search, solvers, learners, models.

Each module is imported when its first opponent is made. A game's own opponents are registered in `opponents.games`.
"""

from __future__ import annotations

from opponents.registry import register_opponent

# Entry points are strings: importing `opponents` loads neither solvers nor torch, and nothing of `trainer`, the layer
# above.
_SEARCHED = ("TicTacToe", "ConnectFour", "Breakthrough", "OpenSpiel")
_HIDDEN = ("KuhnPoker", "LeducPoker", "LiarsDice", "Negotiation", "OpenSpiel")
_SOLVED = ("KuhnPoker", "LeducPoker", "LiarsDice", "OpenSpiel")

register_opponent("mcts", entry_point="opponents.search.mcts:MCTS", games=_SEARCHED, needs_game=True)
register_opponent("ismcts", entry_point="opponents.search.ismcts:ISMCTS", games=_HIDDEN, needs_game=True)
register_opponent("minimax", entry_point="opponents.search.minimax:minimax", games=("TicTacToe",), needs_game=True)
register_opponent("cfr", entry_point="opponents.search.cfr:cfr", games=_SOLVED, needs_game=True)
register_opponent("cfr-argmax", entry_point="opponents.search.cfr:cfr_argmax", games=_SOLVED, needs_game=True)
register_opponent(
    "counting",
    entry_point="opponents.adaptive.counting:counting",
    games=("KuhnPoker", "LeducPoker", "OpenSpiel"),
    needs_game=True,
)
register_opponent(
    "bayes", entry_point="opponents.adaptive.bayes:bayes", needs_game=True, form="bayes:pool,episodes,hands"
)
register_opponent(
    "myopic", entry_point="opponents.adaptive.bayes:myopic", needs_game=True, form="myopic:pool,episodes,hands"
)
register_opponent("blind", entry_point="opponents.adaptive.bayes:blind", needs_game=True, form="blind:pool")
register_opponent(
    "best-response-to",
    entry_point="opponents.adaptive.best_response:best_response_to",
    needs_game=True,
    form="best-response-to:name",
)
register_opponent(
    "llm", entry_point="opponents.llm.endpoint_spec:language_model", needs_game=True, form="llm:model@url"
)
register_opponent(
    "checkpoint",
    entry_point="trainer.backends.checkpoint_opponent:checkpoint",
    needs_game=True,
    form="checkpoint:folder",
)
