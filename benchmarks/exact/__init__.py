"""Commands on exact values: ceilings and headroom of a game, regret of an agent, exploitability of a model."""
