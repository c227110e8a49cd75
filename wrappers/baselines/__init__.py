"""Published methods as memory strategies, after their papers and with prompts of our own (docs/baselines.md)."""
