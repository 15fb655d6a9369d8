#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sbatch -N 2 --ntasks-per-node 4 deploy/slurm.sh PROGRAM [ARGUMENT...]
# sbatch -N 2 --ntasks-per-node 4 deploy/slurm.sh apptainer exec train.sif train
#
# Apptainer's containers have the host's network, /dev/shm, user and environment: Lockstep needs nothing else.
#   apptainer build train.sif docker-archive:train.tar       after: podman save -o train.tar train:1
#SBATCH --job-name=train
#SBATCH --no-requeue
set -euo pipefail
LOCKSTEP_JOB_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export LOCKSTEP_JOB_SECRET
exec srun --kill-on-bad-exit=1 "$@"
