"""Executors: they run jobs in this process, in worker processes, on a Ray cluster or in a Slurm queue.

    executor = make_executor("processes:4")
    for place, outcome in executor.run(make, jobs):
        ...

Work is a function of one job. Each worker calls `make`, which is sent to it, to get that function. Only the calling
process writes results, and the results do not depend on the executor.
"""
