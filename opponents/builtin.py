"""Registration of the built-in opponents by entry point: search, solvers and the experts of single games.

Each module is imported when its first opponent is made.
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
register_opponent("alfworld/expert", entry_point="opponents.solo.alfworld:ALFWorldExpert", games=("ALFWorld",))
register_opponent(
    "alfworld/oracle", entry_point="opponents.solo.alfworld:ALFWorldOracle", games=("ALFWorld",), needs_game=True
)
register_opponent(
    "alfworld/expert-without-memory", entry_point="opponents.solo.alfworld:expert_without_memory", games=("ALFWorld",)
)
register_opponent("sokoban/expert", entry_point="opponents.solo.sokoban:SokobanExpert", games=("Sokoban",))
register_opponent(
    "webshop/oracle", entry_point="opponents.solo.webshop:WebShopOracle", games=("WebShop",), needs_game=True
)
for _name in ("rule", "first", "next"):
    _entry = f"opponents.solo.webshop:WebShop{_name.capitalize()}"
    register_opponent(f"webshop/{_name}", entry_point=_entry, games=("WebShop",))
for _name in ("all-c", "all-d", "tit-for-tat", "generous", "grim", "pavlov", "alternate"):
    _entry = f"opponents.games.prisoners_dilemma:{_name.replace('-', '_')}"
    register_opponent(f"pd/{_name}", entry_point=_entry, games=("PrisonersDilemma",))
register_opponent(
    "pd/random",
    entry_point="opponents.games.prisoners_dilemma:at_random",
    games=("PrisonersDilemma",),
    form="pd/random:probability",
)
for _name in ("rock", "paper", "scissors", "copy", "beat", "cycle", "stay"):
    _entry = f"opponents.games.rock_paper_scissors:{_name}"
    register_opponent(f"rps/{_name}", entry_point=_entry, games=("RockPaperScissors",))
for _name in (f"{_soft}{_kind}" for _soft in ("", "soft-") for _kind in ("tight", "loose", "maniac", "caller")):
    _entry = _name.replace("-", "_")
    # `leduc/maniac` is registered as an alias of `last`.
    if _name != "maniac":
        register_opponent(f"leduc/{_name}", entry_point=f"opponents.games.leduc:{_entry}", games=("LeducPoker",))
    register_opponent(
        f"liars/{_name}", entry_point=f"opponents.games.liars_dice:{_entry}", games=("LiarsDice",), needs_game=True
    )
for _name in ("fair", "greedy", "conceder", "boulware", "firm"):
    register_opponent(
        f"negotiation/{_name}", entry_point=f"opponents.games.negotiation:{_name}", games=("Negotiation",)
    )
    _entry = f"opponents.games.bargaining:{_name}"
    register_opponent(f"bargain/{_name}", entry_point=_entry, games=("Bargaining",), needs_game=True)
for _name in ("greedy", "repeat", "avoid-last"):
    _entry = f"opponents.games.inspection:{_name.replace('-', '_')}"
    register_opponent(f"inspect/{_name}", entry_point=_entry, games=("Inspection",))
register_opponent("ultimatum/reserve", entry_point="opponents.games.ultimatum:reserve", games=("Ultimatum",))
register_opponent("ultimatum/soft-reserve", entry_point="opponents.games.ultimatum:soft_reserve", games=("Ultimatum",))
register_opponent("llm", entry_point="opponents.llm:language_model", needs_game=True, form="llm:model@url")
register_opponent(
    "checkpoint",
    entry_point="trainer.backends.checkpoint_opponent:checkpoint",
    needs_game=True,
    form="checkpoint:folder",
)
