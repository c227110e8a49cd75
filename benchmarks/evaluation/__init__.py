"""Evaluation through the one rollout loop: panels, agents, scores with intervals, tables and figures."""
