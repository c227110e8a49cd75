"""Games of OpenSpiel: any game by its string, five of them with their own ids and texts.

pyspiel is imported when the first game is made.
"""
