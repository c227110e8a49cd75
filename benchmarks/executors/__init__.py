"""Executors: they run jobs in this process, in worker processes, on a Ray cluster or in a Slurm queue.

    executor = make_executor("processes:4")
    for place, outcome in executor.run(make, jobs):
        ...

Work is a function of one job. Each worker calls `make`, which is sent to it, to get that function. Only the calling
process writes results, and the results do not depend on the executor.
"""

from mage_envs.benchmarks.executors.jobs import Conditions, Executor, results_in_order, run_in_order, unwrap
from mage_envs.benchmarks.executors.naming import EXECUTOR_HELP, FORMS, ExecutorOption, make_executor
from mage_envs.benchmarks.executors.on_this_machine import Local, Processes

__all__ = [
    "EXECUTOR_HELP",
    "FORMS",
    "Conditions",
    "Executor",
    "ExecutorOption",
    "Local",
    "Processes",
    "make_executor",
    "results_in_order",
    "run_in_order",
    "unwrap",
]
