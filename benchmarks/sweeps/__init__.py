"""Sweeps: trainings of presets x overrides x seeds on any executor, with one table of results and intervals."""
