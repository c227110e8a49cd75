"""Where work is done: in this process, in others, on a Ray cluster, in a Slurm queue. The results are the same.

    executor = make_executor("processes:4")
    for place, outcome in executor.run(make, jobs):
        ...

Work is a function of one job. `make` makes it in each process, from names and settings that are sent there; whoever
runs the executor is the only one that writes results down.
"""

from benchmarks.executors.jobs import Conditions, Executor, given, in_order, ordered
from benchmarks.executors.naming import FORMS, add_option, make_executor
from benchmarks.executors.on_this_machine import Local, Processes

__all__ = [
    "FORMS",
    "Conditions",
    "Executor",
    "Local",
    "Processes",
    "add_option",
    "given",
    "in_order",
    "make_executor",
    "ordered",
]
