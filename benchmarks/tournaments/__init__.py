"""Tournaments of policies in a two-player game: every policy plays every policy in both seats.

settings = Settings("KuhnPoker", ("kuhn/nash", "kuhn/aggressive", "uniform"), games=1000)
results = score(settings, play_all(settings, executor=Processes(2)))
sys.stdout.write(report.text(results))
"""
