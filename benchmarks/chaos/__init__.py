"""`mage check`: stress tests for a game, an opponent or an environment, each in a separate process."""
