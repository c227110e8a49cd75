"""Sokoban: rules and text (`game`), levels (`level`), exact search (`search`) and sources of rooms."""
