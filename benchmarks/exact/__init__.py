"""Commands on exact values: ceilings of a game, exploitability of a model."""
