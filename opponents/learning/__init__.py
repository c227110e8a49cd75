"""Opponents that learn from earlier hands, or change between episodes, and whose exact values can be computed."""
