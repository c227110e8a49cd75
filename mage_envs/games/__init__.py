"""The games of this package. Each is one module or folder here, and one line below.

To add a game, write its module with `SETTINGS`, a module of `mage_envs.opponents.games` that registers its opponents,
pools and split, and its tests. Then add the line and run `python -m dev.doc_tables`. All lists of games follow from it.
"""

from mage_envs.registry import register_game


def register_games() -> None:
    """Register every game of this package. Entry points are strings, so this imports no game.

    The tables of the docs list the games in this order.
    """
    _register("KuhnPoker", "kuhn_poker", kuhn="games.kuhn")
    _register("TicTacToe", "tictactoe", tictactoe="games.tictactoe")
    _register("PrisonersDilemma", "prisoners_dilemma", pd="games.prisoners_dilemma")
    _register("Ultimatum", "ultimatum", ultimatum="games.ultimatum")
    _register("RockPaperScissors", "rock_paper_scissors", rps="games.rock_paper_scissors")
    _register("Bargaining", "bargaining", bargain="games.bargaining")
    _register("Inspection", "inspection", inspect="games.inspection")
    _register("Encounters", "encounters", encounters="games.encounters")
    _register("LeducPoker", "openspiel.registered", settings="LEDUC", leduc="games.leduc")
    _register("ConnectFour", "openspiel.registered", settings="")
    _register("LiarsDice", "openspiel.registered", settings="", liars="games.liars_dice")
    _register("Negotiation", "openspiel.registered", settings="NEGOTIATION", negotiation="games.negotiation")
    _register("Breakthrough", "openspiel.registered", settings="")
    _register("OpenSpiel", "openspiel", settings="", finder="openspiel.loading:options_of")
    _register("SokobanControls", "sokoban.controls", controls="games.sokoban_controls")
    _register("ALFWorldHouse", "alfworld_house", house="games.alfworld_house")
    _register("WebShopCustomer", "webshop_customer.shopping", customer="games.webshop_customer")
    _register("Sokoban", "sokoban", sokoban="solo")
    _register("WebShop", "webshop", webshop="solo")
    _register("ALFWorld", "alfworld", alfworld="solo")


def _register(name: str, module: str, settings: str = "SETTINGS", finder: str = "", **opponents: str) -> None:
    """Register one game.

    Args:
        name: Name of the game and of its class.
        module: Module of the class in this package.
        settings: Name of the game's settings in that module; empty for the default settings.
        finder: Function in this package that finds the game's options for other names; empty if there is none.
        opponents: Prefix of the opponents' names, with the module in `opponents` that registers them.
    """
    path = f"mage_envs.games.{module}"
    register_game(
        name,
        f"{path}:{name}",
        settings=f"{path}:{settings}" if settings else None,
        opponents={prefix: f"mage_envs.opponents.{folder}" for prefix, folder in opponents.items()},
        finder=f"mage_envs.games.{finder}" if finder else "",
    )
