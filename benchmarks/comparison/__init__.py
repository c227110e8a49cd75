"""Comparisons: runs paired by task, and leaderboards of validated runs and suites."""
