"""The demo: a tiny transformer learns to adapt to unknown Kuhn Poker opponents."""
