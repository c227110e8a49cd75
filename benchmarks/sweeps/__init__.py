"""Sweeps: presets x overrides x seeds as data, trained wherever work is done, in one table with intervals."""
