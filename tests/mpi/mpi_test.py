#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks of MPI communicators as processes of jobs, under the MPIs that are installed.

    tests/mpi/mpi_test.py FOLDER      the folder with ranks-NAME and diffusion-NAME, NAME an MPI
"""
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

FOLDER = Path(sys.argv[1])
LAUNCHERS = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"], "mpich": ["mpiexec.hydra"]}


def run(mpi, ranks, program, *arguments):
    done = subprocess.run([*LAUNCHERS[mpi], "-n", str(ranks), FOLDER / f"{program}-{mpi}", *arguments], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
    return done.returncode, done.stdout


class Ranks:
    mpi = ""

    def expect(self, mode, ranks, *lines):
        status, text = run(self.mpi, ranks, "ranks", mode)
        self.assertEqual(status, 0, text)
        self.assertEqual(sorted(re.findall(r"\w+: rank .*", text)), sorted(lines), text)
        return text

    def refused(self, mode, *words):
        status, text = run(self.mpi, 2, "ranks", mode)
        self.assertNotEqual(status, 0, text)
        for word in words:
            self.assertIn(word, text)

    def test_ranks_of_the_world_are_processes_and_both_libraries_sum_in_turns(self):
        text = self.expect("world", 4, *(f"world: rank {i} is process {i} of 4, sums 120 120" for i in range(4)))
        self.assertIn("cluster mpi (rank 0 of 4 of the communicator in mpi), coordinator 127.0.0.1:", text)
        self.assertNotIn("open to everybody", text)

    def test_halves_of_the_world_are_two_jobs(self):
        self.expect("halves", 4, "even: rank 2 is process 0 of 2, sums 40 40", "even: rank 0 is process 1 of 2, sums 40 40",
                    "odd: rank 3 is process 0 of 2, sums 80 80", "odd: rank 1 is process 1 of 2, sums 80 80")

    def test_jobs_of_other_communicators_follow_each_other(self):
        self.expect("turns", 4, *(f"{job}: rank {i} is process {i} of 4, sums 120 120"
                                  for job in ("world", "again") for i in range(4)),
                    *(f"half: rank {i} is process {1 - i // 2} of 2, sums {40 * (1 + i % 2)} {40 * (1 + i % 2)}"
                      for i in range(4)))

    def test_some_ranks_are_a_job_and_the_others_compute_alone(self):
        self.expect("some", 3, *(f"some: rank {i} is process {i} of 2, sums 20 20" for i in range(2)))

    def test_a_single_rank_is_a_job_of_one(self):
        self.expect("world", 1, "world: rank 0 is process 0 of 1, sums 0 0")

    def test_a_rank_that_does_not_come_ends_the_wait_of_the_others(self):
        self.refused("absent", "rank 0 of 2 has waited for 1 s: not all ranks of the communicator in mpi have called")

    def test_an_address_that_rank_0_cannot_listen_at_is_an_error_on_all_ranks(self):
        self.refused("listen", "rank 0 of the communicator cannot hold the coordinator", "192.0.2.1:1")

    def test_communicators_that_cannot_be_used_are_refused(self):
        self.refused("before", "MPI_Init has not been called")
        self.refused("null", "it is MPI_COMM_NULL")

    def test_the_example_prints_equal_sums(self):
        status, text = run(self.mpi, 2, "diffusion")
        self.assertEqual(status, 0, text)
        self.assertIn("after 6 steps the heat is 4.000, summed by MPI, and 4.000, summed by Lockstep", text)


class OpenMpi(Ranks, unittest.TestCase):
    mpi = "openmpi"


class Mpich(Ranks, unittest.TestCase):
    mpi = "mpich"


def skip_what_is_not_installed(*cases):
    for case in cases:
        if not shutil.which(LAUNCHERS[case.mpi][0]) or not (FOLDER / f"ranks-{case.mpi}").exists():
            case.__unittest_skip__ = True
            case.__unittest_skip_why__ = f"{case.mpi} is not installed with its headers"


if __name__ == "__main__":
    skip_what_is_not_installed(OpenMpi, Mpich)
    unittest.main(argv=sys.argv[:1])
