"""Tournaments of policies in a two-player game: every policy plays every policy in both seats.

settings = Settings("KuhnPoker", ("kuhn/nash", "kuhn/aggressive", "uniform"), games=1000)
results = score(settings, play_all(settings, executor=Processes(2)))
sys.stdout.write(report.text(results))
"""

from mage_envs.benchmarks.tournaments.pairing import Pairing, PairingFailure, play_pairing
from mage_envs.benchmarks.tournaments.pairing_store import Store
from mage_envs.benchmarks.tournaments.results import Cell, Results, Standing, score
from mage_envs.benchmarks.tournaments.schedule import play_all
from mage_envs.benchmarks.tournaments.tournament_settings import Settings

__all__ = [
    "Cell",
    "Pairing",
    "PairingFailure",
    "Results",
    "Settings",
    "Standing",
    "Store",
    "play_all",
    "play_pairing",
    "score",
]
