# SPDX-License-Identifier: Apache-2.0
"""What the JAX sides of the comparison share: joining the job, and printing measurements."""
import argparse
import json
import os
import resource
import statistics
import sys
import time


def parse_options(*names):
    """The options --NAME NUMBER of the command line, all of which must be there."""
    parser = argparse.ArgumentParser()
    for name in names:
        parser.add_argument(f"--{name}", type=int, required=True)
    return parser.parse_args()


def join():
    """Joins the job that compare.py describes in the environment; returns (process index, process count)."""
    import jax

    count = int(os.environ["COMPARE_PROCESSES"])
    index = int(os.environ["COMPARE_PROCESS"])
    if count > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            coordinator_address=os.environ["COMPARE_COORDINATOR"], num_processes=count, process_id=index)
    assert jax.process_count() == count and jax.device_count() == count
    return index, count


def report(measure, **fields):
    """Prints one measurement as one line of JSON, in one write, so that lines of several processes do not mix."""
    sys.stdout.write(json.dumps({"measure": measure, **fields}) + "\n")
    sys.stdout.flush()


def report_times(measure, seconds, **fields):
    report(measure, median_us=statistics.median(seconds) * 1e6, min_us=min(seconds) * 1e6, count=len(seconds), **fields)


def report_first_step(index):
    report("first_step", process=index, unix_time=time.time())


def report_memory(index):
    report("memory", process=index, peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
