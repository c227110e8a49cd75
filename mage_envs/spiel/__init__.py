"""OpenSpiel's own games and sizes, for the adapter and for the opponents that use its solvers and searches."""
