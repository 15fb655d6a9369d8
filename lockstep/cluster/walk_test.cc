// SPDX-License-Identifier: Apache-2.0
// Every cluster type with each subset of what it reads, and with each part of it garbled: the process gets
// its place, or an error that names a variable. It is never a job of its own while anything says that there
// are others.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/cluster/test_launches.h"
#include "lockstep/cluster/types.h"

namespace lockstep::cluster {
namespace {

/// A process's view of a job of several: variables, "file:PATH" and "metadata:NAME". The entries in `parts`
/// are removed and garbled, the others stay.
struct Launch {
  const char* cluster;
  std::string place;  ///< "process 1 of 4, coordinator node1:8476"
  Variables all;
  std::vector<std::string> parts;
  std::vector<std::string> signs;  ///< the parts each of which says alone that there are others
};

const Variables kPod = {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"}};

std::vector<Launch> launches() {
  const std::string pci = "file:/sys/bus/pci/devices/0000:00:05.0/";
  std::vector<Launch> all = {
      {"launcher",
       "process 2 of 4, coordinator node1:8476",
       {{"LOCKSTEP_LAUNCHER", "1"},
        {"LOCKSTEP_COORDINATOR_ADDRESS", "node1:8476"},
        {"LOCKSTEP_NUM_PROCESSES", "4"},
        {"LOCKSTEP_PROCESS_ID", "2"}},
       {"LOCKSTEP_COORDINATOR_ADDRESS", "LOCKSTEP_NUM_PROCESSES", "LOCKSTEP_PROCESS_ID", "LOCKSTEP_LAUNCHER"},
       {"LOCKSTEP_COORDINATOR_ADDRESS", "LOCKSTEP_NUM_PROCESSES", "LOCKSTEP_PROCESS_ID",
        "LOCKSTEP_LAUNCHER"}},
      {"explicit",
       "process 2 of 4, coordinator node1:8476",
       {{"JAX_COORDINATOR_ADDRESS", "node1:8476"}, {"JAX_NUM_PROCESSES", "4"}, {"JAX_PROCESS_ID", "2"}},
       {"JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"},
       {"JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"}},
      {"torchrun",
       "process 5 of 8, coordinator node1:62268",
       kTorchrun,
       {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "WORLD_SIZE", "RANK", "LOCAL_RANK",
        "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
       {"TORCHELASTIC_RUN_ID", "WORLD_SIZE", "RANK"}},
      {"ompi",
       "process 1 of 3, coordinator 127.0.0.1:63616",
       recorded("ompi4"),
       {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_MCA_orte_hnp_uri", "PMIX_RANK"},
       {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_RANK"}},
      {"ompi",
       "process 1 of 3, coordinator 127.0.0.1:61597",
       recorded("ompi5"),
       {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", "PMIX_RANK"},
       {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_RANK"}},
      {"pmi",
       "process 1 of 3, coordinator 127.0.0.1:62183",
       recorded("intel"),
       {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "I_MPI_HYDRA_UUID"},
       {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}},
      {"pmi",
       "process 1 of 3, coordinator 127.0.0.1:61823",
       with(recorded("mpich"),
            {{"file:/proc/self/stat", "9 (program) S 8"},
             {"file:/proc/8/stat", "8 (hydra_pmi_proxy) S 7"},
             {"file:/proc/8/cmdline",
              std::string("/usr/bin/hydra_pmi_proxy\0--control-port\0vm:33151\0--rmk\0user", 63)}}),
       {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "file:/proc/self/stat",
        "file:/proc/8/cmdline"},
       {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}},
      {"slurm",
       "process 1 of 4, coordinator node1:61441",
       without(recorded("slurm-srun"), {"SLURM_STEPID", "SLURM_JOBID"}),
       {"SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", "SLURM_PROCID", "SLURM_JOB_ID",
        "SLURM_LOCALID", "SLURM_STEP_NUM_NODES"},
       {"SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", "SLURM_PROCID"}},
      {"horovod",
       "process 1 of 4, coordinator 10.0.0.1:61441",
       kHorovod,
       {"HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"},
       {"HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"}},
      {"mlx",
       "process 1 of 2, coordinator 10.0.0.1:65091",
       {{"MLX_RANK", "1"},
        {"MLX_HOSTFILE", "/tmp/hosts"},
        {"file:/tmp/hosts", R"([["10.0.0.1:32323"], ["10.0.0.2:32323"]])"}},
       {"MLX_RANK", "MLX_HOSTFILE", "file:/tmp/hosts"},
       {"MLX_RANK", "MLX_HOSTFILE"}},
      {"mlx",
       "process 1 of 2, coordinator 10.0.0.1:62344",
       {{"MLX_RANK", "1"}, {"MLX_WORLD_SIZE", "2"}, {"NCCL_HOST_IP", "10.0.0.1"}, {"NCCL_PORT", "5000"}},
       {"MLX_RANK", "MLX_WORLD_SIZE", "NCCL_HOST_IP", "NCCL_PORT"},
       {"MLX_RANK", "MLX_WORLD_SIZE"}},
      {"gketpu",
       "process 5 of 6, coordinator first.svc:8482",
       {{"TPU_WORKER_ID", "1"},
        {"TPU_WORKER_HOSTNAMES", "job-0.svc,job-1.svc"},
        {"MEGASCALE_NUM_SLICES", "3"},
        {"MEGASCALE_SLICE_ID", "2"},
        {"MEGASCALE_COORDINATOR_ADDRESS", "first.svc:8080"}},
       {"TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES"},
       {"TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES"}},
      {"gcetpu",
       "process 1 of 2, coordinator 10.130.0.2:8482",
       {{pci + "vendor", "0x1ae0\n"},
        {pci + "device", "0x0063\n"},
        {"metadata:agent-worker-number", "1"},
        {"metadata:worker-network-endpoints", "unknown:unknown:10.130.0.2,unknown:unknown:10.130.0.3"}},
       {"metadata:agent-worker-number", "metadata:worker-network-endpoints"},
       {"metadata:agent-worker-number"}},
      {"lws",
       "process 1 of 4, coordinator llm-2.llm.default:55527",
       kLws,
       {"LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX", "HOSTNAME"},
       {"LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"}},
      {"k8s",
       "process 2 of 4, coordinator train-0.workers.default.svc.cluster.local:55527",
       with(kPod, {{"HOSTNAME", "train-2"},
                   {"file:/etc/hosts", "10.244.1.7\ttrain-2.workers.default.svc.cluster.local\ttrain-2\n"},
                   {"JOB_COMPLETION_INDEX", "2"},
                   {"LOCKSTEP_NUM_PROCESSES", "4"}}),
       {"JOB_COMPLETION_INDEX", "LOCKSTEP_NUM_PROCESSES", "HOSTNAME", "file:/etc/hosts"},
       {"JOB_COMPLETION_INDEX", "LOCKSTEP_NUM_PROCESSES"}},
      {"torch",
       "process 1 of 3, coordinator bert-master-0:64416",
       with(kPod,
            {{"WORLD_SIZE", "3"}, {"RANK", "1"}, {"MASTER_ADDR", "bert-master-0"}, {"MASTER_PORT", "23456"}}),
       {"WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"},
       {"WORLD_SIZE", "RANK"}},
      {"torch",
       "process 1 of 3, coordinator bert-master-0:64416",
       with(kPod, {{"PET_NNODES", "3"},
                   {"PET_NODE_RANK", "1"},
                   {"PET_MASTER_ADDR", "bert-master-0"},
                   {"PET_MASTER_PORT", "23456"}}),
       {"PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"},
       {"PET_NNODES", "PET_NODE_RANK"}},
      {"jaxjob",
       "process 1 of 3, coordinator jaxjob-worker-0:6666",
       kJaxJob,
       {"COORDINATOR_PORT", "COORDINATOR_ADDRESS", "NUM_PROCESSES", "PROCESS_ID"},
       {"NUM_PROCESSES", "PROCESS_ID"}},
      {"aws-batch",
       "process 2 of 4, coordinator 10.0.0.7:55527",
       kBatch,
       {"AWS_BATCH_JOB_NUM_NODES", "AWS_BATCH_JOB_NODE_INDEX", "AWS_BATCH_JOB_MAIN_NODE_INDEX",
        "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS", "AWS_BATCH_JOB_ATTEMPT", "AWS_BATCH_JOB_ID"},
       {"AWS_BATCH_JOB_NUM_NODES", "AWS_BATCH_JOB_NODE_INDEX", "AWS_BATCH_JOB_MAIN_NODE_INDEX",
        "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"}},
      {"sagemaker",
       "process 1 of 2, coordinator algo-1:55527",
       kSageMaker,
       {"SM_HOSTS", "SM_CURRENT_HOST"},
       {"SM_HOSTS", "SM_CURRENT_HOST"}},
      {"sagemaker",
       "process 1 of 2, coordinator algo-1:55527",
       {{"file:/opt/ml/input/config/resourceconfig.json",
         R"({"current_host":"algo-2","hosts":["algo-1","algo-2"]})"}},
       {"file:/opt/ml/input/config/resourceconfig.json"},
       {}},
      {"skypilot",
       "process 1 of 2, coordinator 10.0.0.1:62532",
       kSkyPilot,
       {"SKYPILOT_NUM_NODES", "SKYPILOT_NODE_RANK", "SKYPILOT_NODE_IPS"},
       {"SKYPILOT_NUM_NODES", "SKYPILOT_NODE_RANK", "SKYPILOT_NODE_IPS"}},
  };
  // Launchers that are only recognised: an error, whatever is there of their variables.
  struct Recognised {
    const char *other, *rank;
    bool is_size;  ///< whether `other` is the number of processes, which alone says that there are others
  };
  for (const auto& [other, rank, is_size] :
       std::vector<Recognised>{{"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", true},
                               {"FLUX_JOB_SIZE", "FLUX_TASK_RANK", true},
                               {"JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", true},
                               {"PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_ID", true},
                               {"_CONDOR_NPROCS", "_CONDOR_PROCNO", true},
                               {"PALS_NODEID", "PALS_RANKID", false},
                               {"PMIX_NAMESPACE", "PMIX_RANK", false},
                               {"VC_TASK_NUM", "VC_TASK_INDEX", false}}) {
    all.push_back({"", "", {{other, "4"}, {rank, "2"}}, {other, rank}, {rank}});
    if (is_size) all.back().signs.push_back(other);
  }
  return all;
}

/// The place, or the error in `refusal`.
std::optional<Place> detected(const Variables& all, std::string* refusal) {
  TestSystem system;
  Variables variables;
  for (const auto& [name, value] : all) {
    if (name.starts_with("file:")) {
      system.files[name.substr(5)] = value;
    } else if (name.starts_with("metadata:")) {
      system.attributes[name.substr(9)] = value;
    } else {
      variables[name] = value;
    }
  }
  try {
    return detect(MapEnvironment(variables), "", system);
  } catch (const InitializationError& error) {
    *refusal = error.what();
    return std::nullopt;
  }
}

/// Its own place as in `whole`, or an error that names something of what it reads.
void expect_no_silent_single(const Launch& launch, const Variables& variables,
                             const std::optional<Place>& whole, const std::string& what) {
  std::string refusal;
  const auto place = detected(variables, &refusal);
  if (place) {
    ASSERT_TRUE(whole) << launch.cluster << ": " << what << ": detected as " << place->cluster << ", "
                       << place->num_processes << " processes";
    EXPECT_EQ(place->num_processes, whole->num_processes) << launch.cluster << ": " << what;
    EXPECT_EQ(place->process_id, whole->process_id) << launch.cluster << ": " << what;
    return;
  }
  const bool names_one = std::any_of(launch.parts.begin(), launch.parts.end(), [&](const std::string& part) {
    return refusal.find(part.substr(part.find(':') + 1)) != std::string::npos;
  });
  EXPECT_TRUE(names_one || refusal.find("LOCKSTEP_COORDINATOR_ADDRESS") != std::string::npos)
      << launch.cluster << ": " << what << ": " << refusal;
}

TEST(EveryClusterType, HasARecordedLaunch) {
  for (const ClusterType& type : kClusterTypes) {
    const auto all = launches();
    EXPECT_TRUE(std::string(type.name) == "single" ||
                std::any_of(all.begin(), all.end(),
                            [&](const Launch& launch) { return std::string(launch.cluster) == type.name; }))
        << type.name;
  }
}

TEST(EveryClusterType, WithAnyVariablesRemoved_IsNeverSilentlyASingleProcess) {
  int subsets = 0;
  for (const Launch& launch : launches()) {
    std::string refusal;
    const auto whole = detected(launch.all, &refusal);
    if (*launch.cluster) {
      ASSERT_TRUE(whole) << launch.cluster << ": " << refusal;
      EXPECT_EQ(whole->cluster, launch.cluster);
      EXPECT_EQ(fmt::format("process {} of {}, coordinator {}", whole->process_id, whole->num_processes,
                            whole->coordinator_address),
                launch.place);
    }
    for (unsigned removed = 1; removed < 1u << launch.parts.size(); ++removed) {
      Variables some = launch.all;
      std::string what = "without";
      for (std::size_t i = 0; i < launch.parts.size(); ++i) {
        if ((removed >> i & 1) == 0) continue;
        some.erase(launch.parts[i]);
        what += " " + launch.parts[i];
      }
      if (std::none_of(launch.signs.begin(), launch.signs.end(),
                       [&](const std::string& sign) { return some.contains(sign); }))
        continue;
      expect_no_silent_single(launch, some, whole, what);
      ++subsets;
    }
  }
  std::printf("%d subsets\n", subsets);
}

TEST(EveryClusterType, WithAnyVariableGarbled_IsNeverSilentlyASingleProcess) {
  int garbled = 0;
  for (const Launch& launch : launches()) {
    std::string refusal;
    const auto whole = detected(launch.all, &refusal);
    for (const std::string& part : launch.parts) {
      const std::string value = launch.all.at(part);
      std::vector<std::string> bad = {
          "x",  "-1", "1.5", " 1", "1 ",   "0x2",       "99999999999999999999",   "[", "]", ",",
          "\n", ":",  "{",   "\"", "\xff", value + "x", std::string(100'000, '[')};
      if (value.size() > 5)
        for (std::size_t cut = 1; cut < value.size(); ++cut) bad.push_back(value.substr(0, cut));
      for (const std::string& text : bad) {
        expect_no_silent_single(launch, with(launch.all, {{part, text}}), whole,
                                part + "=" + text.substr(0, 60));
        ++garbled;
      }
    }
  }
  std::printf("%d garbled values\n", garbled);
}

}  // namespace
}  // namespace lockstep::cluster
