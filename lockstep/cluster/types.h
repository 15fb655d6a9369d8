// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/detect.h"

namespace lockstep::cluster {

/// A launcher or cluster that tells a process its number.
struct ClusterType {
  const char* name;  ///< as in Place::cluster

  /// The place, or nullopt if the environment is not of this cluster type. Throws InitializationError if its
  /// information is incomplete or contradictory, listing what is set and what is missing. Depends only on its
  /// arguments.
  std::optional<Place> (*place)(const Environment& environment, const System& system);
};

/// A child of `lockstep run` (LOCKSTEP_LAUNCHER=1), which gives every process its whole place and its job's
/// identity.
std::optional<Place> launcher_place(const Environment& environment, const System& system);

/// Values set by the user: coordinator address, number of processes, process id, each by its LOCKSTEP_ or
/// JAX_ name. Matches if all three are set; single ones may add to what another type gives.
std::optional<Place> explicit_place(const Environment& environment, const System& system);

/// A process of torchrun (TORCHELASTIC_RUN_ID). The coordinator's host is MASTER_ADDR, its port is derived
/// from MASTER_PORT, which is torchrun's own.
std::optional<Place> torchrun_place(const Environment& environment, const System& system);

/// A process that is told its place by torch's variables without torchrun: RANK, WORLD_SIZE, MASTER_ADDR and
/// MASTER_PORT; and a pod of Kubeflow's PyTorchJob or TrainJob (PET_NNODES).
std::optional<Place> torch_place(const Environment& environment, const System& system);

/// A process of Open MPI's mpirun: 4 (ORTE) or 5 (PRRTE). The coordinator's host is mpirun's.
std::optional<Place> ompi_place(const Environment& environment, const System& system);

/// A process of MPICH's or Intel MPI's mpiexec (Hydra), or another launcher that sets PMI_RANK and PMI_SIZE.
/// The coordinator's host is mpiexec's, which Hydra's proxy, this process's ancestor, has on its command
/// line.
std::optional<Place> pmi_place(const Environment& environment, const System& system);

/// A task of a Slurm step (srun). The shell of sbatch or salloc is not one. The coordinator's host is the
/// step's first node.
std::optional<Place> slurm_place(const Environment& environment, const System& system);

/// A process of horovodrun with Gloo; with MPI it is mpirun's. The coordinator's host is horovodrun's.
std::optional<Place> horovod_place(const Environment& environment, const System& system);

/// A process of mlx.launch with the backend ring, whose file lists the addresses of all, or nccl.
std::optional<Place> mlx_place(const Environment& environment, const System& system);

/// A worker of Cloud TPU under Kubernetes (GKE), from the variables that GKE sets.
std::optional<Place> gke_tpu_place(const Environment& environment, const System& system);

/// A worker of Cloud TPU on plain virtual machines (GCE), from the metadata server, which is only queried if
/// the machine has TPU chips.
std::optional<Place> gce_tpu_place(const Environment& environment, const System& system);

/// A pod of a LeaderWorkerSet of Kubernetes: each of its groups is a job. The coordinator's host is the
/// leader.
std::optional<Place> lws_place(const Environment& environment, const System& system);

/// A pod of an indexed Job or JobSet of Kubernetes. The coordinator's host is the pod of index 0.
std::optional<Place> k8s_place(const Environment& environment, const System& system);

/// A pod of Kubeflow's JAXJob; those of a TrainJob have JAX_ variables.
std::optional<Place> jaxjob_place(const Environment& environment, const System& system);

/// A node of a multi-node parallel job of AWS Batch. The main node is process 0.
std::optional<Place> aws_batch_place(const Environment& environment, const System& system);

/// An instance of a training job of SageMaker, from its variables or its file resourceconfig.json.
std::optional<Place> sagemaker_place(const Environment& environment, const System& system);

/// A node of a task of SkyPilot.
std::optional<Place> skypilot_place(const Environment& environment, const System& system);

/// No cluster: a single process. Always matches, but throws InitializationError if variables of a launcher
/// that is not supported say that there are several processes, and if only some of explicit_place's variables
/// are set.
std::optional<Place> single_place(const Environment& environment, const System& system);

/// All cluster types, in the order of detection; the last one always matches. Launchers of processes come
/// before the systems that gave them machines: torchrun before the MPI or Slurm that may have started it, an
/// MPI's launcher before Slurm, and all of them before the clouds, whose nodes they start on.
inline constexpr ClusterType kClusterTypes[] = {
    {"launcher", launcher_place},   {"explicit", explicit_place}, {"torchrun", torchrun_place},
    {"ompi", ompi_place},           {"pmi", pmi_place},           {"slurm", slurm_place},
    {"horovod", horovod_place},     {"mlx", mlx_place},           {"gketpu", gke_tpu_place},
    {"gcetpu", gce_tpu_place},      {"lws", lws_place},           {"k8s", k8s_place},
    {"torch", torch_place},         {"jaxjob", jaxjob_place},     {"aws-batch", aws_batch_place},
    {"sagemaker", sagemaker_place}, {"skypilot", skypilot_place}, {"single", single_place},
};

/// Throws InitializationError if some of the variables of explicit_place are set but not all, listing what is
/// set and what is missing.
void refuse_half_set(const Environment& environment);

}  // namespace lockstep::cluster
