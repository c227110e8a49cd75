"""Tournaments of policies in a two-player game: every policy plays every policy in both seats.

settings = Settings("KuhnPoker", ("kuhn/nash", "kuhn/aggressive", "uniform"), games=1000)
results = score(settings, play_all(settings, executor=Processes(2)))
sys.stdout.write(report.text(results))
"""

from benchmarks.tournaments.pairing import Pairing, PairingFailure, play_pairing
from benchmarks.tournaments.pairing_store import Store
from benchmarks.tournaments.results import Cell, Results, Standing, score
from benchmarks.tournaments.schedule import play_all
from benchmarks.tournaments.tournament_settings import Settings

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
