"""Evaluation data: panels (sets of tasks), settings (panels with options) and suites (groups of settings).

Suites are in `paper`, which is not imported here: most evaluations play a single setting.
"""
