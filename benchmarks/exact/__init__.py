"""Exact values of runs and games: tables and figures of headroom, regret of an agent."""
