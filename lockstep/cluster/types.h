// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/detect.h"

namespace lockstep::cluster {

/// A child of `lockstep run` (LOCKSTEP_LAUNCHER=1), which gives every process its whole place and its job's
/// identity.
std::optional<Place> launcher_place(const Environment& environment, const System& system);

/// Values set by the user: coordinator address, number of processes, process id, each by its LOCKSTEP_ or
/// JAX_ name. Matches if all three are set; single ones may add to what another type gives.
std::optional<Place> explicit_place(const Environment& environment, const System& system);

/// A process of Open MPI's mpirun: 4 (ORTE) or 5 (PRRTE). The coordinator's host is mpirun's.
std::optional<Place> ompi_place(const Environment& environment, const System& system);

/// A process of MPICH's or Intel MPI's mpiexec (Hydra), or another launcher that sets PMI_RANK and PMI_SIZE.
/// The coordinator's host is mpiexec's, which Hydra's proxy, this process's ancestor, has on its command
/// line.
std::optional<Place> pmi_place(const Environment& environment, const System& system);

/// A task of a Slurm step (srun). The shell of sbatch or salloc is not one. The coordinator's host is the
/// step's first node.
std::optional<Place> slurm_place(const Environment& environment, const System& system);

/// A worker of Cloud TPU under Kubernetes (GKE), from the variables that GKE sets.
std::optional<Place> gke_tpu_place(const Environment& environment, const System& system);

/// A worker of Cloud TPU on plain virtual machines (GCE), from the metadata server, which is only queried if
/// the machine has TPU chips.
std::optional<Place> gce_tpu_place(const Environment& environment, const System& system);

/// A pod of an indexed Job or JobSet of Kubernetes. The coordinator's host is the pod of index 0.
std::optional<Place> k8s_place(const Environment& environment, const System& system);

/// No cluster: a single process. Always matches, but throws InitializationError if variables of a launcher
/// that is not supported say that there are several processes, and if only some of explicit_place's variables
/// are set.
std::optional<Place> single_place(const Environment& environment, const System& system);

/// Throws InitializationError if some of the variables of explicit_place are set but not all, listing what is
/// set and what is missing.
void refuse_half_set(const Environment& environment);

}  // namespace lockstep::cluster
