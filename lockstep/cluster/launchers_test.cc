// SPDX-License-Identifier: Apache-2.0
// Launchers and clouds that tell a process its place by variables of their own, as their documents and
// sources say.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/cluster/test_launches.h"

namespace lockstep::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Torchrun, OverSeveralHosts_MeetsAtTheMaster) {
  Place place = place_of(kTorchrun);
  EXPECT_EQ(place.cluster, "torchrun");
  EXPECT_EQ(place.num_processes, 8);
  EXPECT_EQ(place.process_id, 5);
  EXPECT_EQ(place.local_process_id, 1);
  EXPECT_EQ(place.coordinator_address, "node1:62268");  // 29500 mod 4096
  EXPECT_EQ(place.job_id, "torchrun-node1:29500");
  EXPECT_EQ(place_of(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "2"}})).attempt, 2);
  EXPECT_EQ(place_of(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "8"}})).coordinator_address, "127.0.0.1:62268");
}

TEST(Torchrun, StartedByAnotherLauncher_IsDetected) {
  for (const char* node : {"slurm-srun", "ompi4", "mpich"})
    EXPECT_EQ(place_of(with(recorded(node), kTorchrun)).num_processes, 8) << node;
  const Variables nodes = {
      {"SKYPILOT_NUM_NODES", "2"}, {"SKYPILOT_NODE_RANK", "1"}, {"SKYPILOT_NODE_IPS", "10.0.0.1\n10.0.0.2\n"},
      {"LWS_GROUP_SIZE", "2"},     {"LWS_WORKER_INDEX", "1"},   {"LWS_LEADER_ADDRESS", "set-0.set.default"}};
  EXPECT_EQ(place_of(with(nodes, kTorchrun)).process_id, 5);
}

TEST(Torch, PodOfPyTorchJob_IsOneProcess) {
  Place place = place_of(kPyTorchJob);
  EXPECT_EQ(place.cluster, "torch");
  EXPECT_EQ(place.num_processes, 3);
  EXPECT_EQ(place.process_id, 1);
  EXPECT_EQ(place.coordinator_address, "bert-master-0:64416");
  // It uses all GPUs of its pod, however many processes torchrun would have started.
  Place wide = place_of(with(kPyTorchJob, {{"WORLD_SIZE", "24"}, {"PET_NPROC_PER_NODE", "8"}}));
  EXPECT_EQ(wide.num_processes, 3);
  EXPECT_FALSE(wide.local_process_id);
}

TEST(Torch, PodOfTrainJob_IsOneProcess) {
  Place place = place_of({{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                          {"JOB_COMPLETION_INDEX", "1"},
                          {"PET_NNODES", "2"},
                          {"PET_NODE_RANK", "1"},
                          {"PET_NPROC_PER_NODE", "auto"},
                          {"PET_MASTER_ADDR", "train-node-0-0.train"},
                          {"PET_MASTER_PORT", "29400"}});
  EXPECT_EQ(place.num_processes, 2);
  EXPECT_EQ(place.process_id, 1);
  EXPECT_THAT(place.coordinator_address, StartsWith("train-node-0-0.train:6"));
}

TEST(Torch, ElasticNumberOfPods_IsRefused) {
  EXPECT_THAT(error_of(with(kPyTorchJob, {{"PET_NNODES", "1:3"}})), HasSubstr("PET_NNODES is '1:3'"));
}

TEST(Torch, WithoutTheMaster_SaysWhatIsMissing) {
  EXPECT_THAT(error_of({{"WORLD_SIZE", "4"}, {"RANK", "1"}}),
              AllOf(HasSubstr("WORLD_SIZE=4, RANK=1 set, MASTER_ADDR, MASTER_PORT missing"),
                    HasSubstr("LOCKSTEP_CLUSTER=none")));
  EXPECT_EQ(place_of({{"WORLD_SIZE", "4"}, {"RANK", "1"}, {"LOCKSTEP_COORDINATOR_ADDRESS", "a:1"}})
                .coordinator_address,
            "a:1");
  EXPECT_EQ(place_of({{"WORLD_SIZE", "1"}, {"RANK", "0"}}).num_processes, 1);
  EXPECT_EQ(place_of({{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}}).cluster, "single");
}

TEST(Horovod, OverSeveralHosts_MeetsAtHorovodrun) {
  Place place = place_of(kHorovod);
  EXPECT_EQ(place.cluster, "horovod");
  EXPECT_EQ(place.num_processes, 4);
  EXPECT_EQ(place.process_id, 1);
  EXPECT_EQ(place.local_process_id, 1);
  EXPECT_EQ(place.coordinator_address, "10.0.0.1:61441");
  EXPECT_EQ(place.job_id, "horovod-10.0.0.1:40961");
  EXPECT_EQ(place_of(with(kHorovod, {{"HOROVOD_LOCAL_SIZE", "4"}})).coordinator_address, "127.0.0.1:61441");
  EXPECT_EQ(place_of(with(kHorovod, {{"LOCKSTEP_COORDINATOR_ADDRESS", "a:1"}})).coordinator_address, "a:1");
}

TEST(Horovod, WithMpi_IsDetectedAsOpenMpi) {
  EXPECT_EQ(place_of(with(recorded("ompi4"), kHorovod)).cluster, "ompi");
}

TEST(Horovod, Elastic_IsRefused) {
  EXPECT_THAT(error_of(with(kHorovod, {{"HOROVOD_ELASTIC", "1"}})), HasSubstr("HOROVOD_ELASTIC=1"));
  EXPECT_EQ(place_of({{"HOROVOD_FUSION_THRESHOLD", "0"}}).cluster, "single");
}

TEST(Mlx, Ring_MeetsAtTheFirstAddressOfItsFile) {
  TestSystem system;
  system.files["/tmp/a"] = R"([["10.0.0.1:32323", "10.1.0.1:32323"], ["10.0.0.2:32323"]])";
  Place place = place_of({{"MLX_RANK", "1"}, {"MLX_HOSTFILE", "/tmp/a"}}, "", system);
  EXPECT_EQ(place.cluster, "mlx");
  EXPECT_EQ(place.num_processes, 2);
  EXPECT_EQ(place.process_id, 1);
  EXPECT_EQ(place.coordinator_address, "10.0.0.1:65091");
  for (const char* bad : {"", "{}", "[]", "[[]]", "[[1]]", R"(["a:1"])", R"([["a"],["b"]])",
                          R"([["a:x"],["b:1"]])", R"([[":1"],["b:1"]])"}) {
    system.files["/tmp/a"] = bad;
    EXPECT_THAT(error_of({{"MLX_RANK", "1"}, {"MLX_HOSTFILE", "/tmp/a"}}, "", system),
                HasSubstr("MLX_HOSTFILE=/tmp/a"))
        << bad;
  }
}

TEST(Mlx, Nccl_MeetsAtItsAddress_AndJacclIsRefused) {
  Place place = place_of(
      {{"MLX_RANK", "1"}, {"MLX_WORLD_SIZE", "4"}, {"NCCL_HOST_IP", "10.0.0.1"}, {"NCCL_PORT", "12345"}});
  EXPECT_EQ(place.num_processes, 4);
  EXPECT_EQ(place.coordinator_address, "10.0.0.1:61497");
  EXPECT_THAT(
      error_of({{"MLX_RANK", "1"}, {"MLX_IBV_DEVICES", "/tmp/a"}, {"MLX_JACCL_COORDINATOR", "10.0.0.1:1"}}),
      HasSubstr("MLX_HOSTFILE missing"));
}

TEST(LeaderWorkerSet, EachGroup_MeetsAtItsLeader) {
  Place place = place_of(kLws);
  EXPECT_EQ(place.cluster, "lws");
  EXPECT_EQ(place.num_processes, 4);
  EXPECT_EQ(place.process_id, 1);
  EXPECT_EQ(place.coordinator_address, "llm-2.llm.default:55527");
  EXPECT_EQ(place.job_id, "lws-llm-2.llm.default");
}

TEST(LeaderWorkerSet, BeforeVersion06_TakesTheIndexFromThePodsName) {
  const Variables old = without(kLws, {"LWS_WORKER_INDEX"});
  EXPECT_EQ(place_of(old).process_id, 1);
  EXPECT_EQ(place_of(with(old, {{"HOSTNAME", "llm-2"}})).process_id, 0);
  for (const char* other : {"llm-20", "llm-2-x", "llm-2-", "worker"})
    EXPECT_THAT(error_of(with(old, {{"HOSTNAME", other}})), HasSubstr("LWS_WORKER_INDEX missing")) << other;
}

TEST(JaxJob, MeetsAtItsCoordinator) {
  Place place = place_of(kJaxJob);
  EXPECT_EQ(place.cluster, "jaxjob");
  EXPECT_EQ(place.num_processes, 3);
  EXPECT_EQ(place.process_id, 1);
  EXPECT_EQ(place.coordinator_address, "jaxjob-worker-0:6666");
  EXPECT_EQ(place_of({{"NUM_PROCESSES", "8"}}).cluster, "single") << "a common name, outside of a pod";
}

TEST(JaxJob, PodOfATrainJob_IsReadFromJaxsVariables) {
  EXPECT_EQ(place_of({{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                      {"JOB_COMPLETION_INDEX", "1"},
                      {"JAX_NUM_PROCESSES", "2"},
                      {"JAX_PROCESS_ID", "1"},
                      {"JAX_COORDINATOR_ADDRESS", "train-node-0-0.train:6666"}})
                .process_id,
            1);
}

TEST(AwsBatch, MeetsAtTheMainNode_WhichIsProcessZero) {
  Place place = place_of(kBatch);
  EXPECT_EQ(place.cluster, "aws-batch");
  EXPECT_EQ(place.num_processes, 4);
  EXPECT_EQ(place.process_id, 2);
  EXPECT_EQ(place.coordinator_address, "10.0.0.7:55527");
  EXPECT_EQ(place.job_id, "aws-batch-9a8b");
  EXPECT_EQ(place.attempt, 1);
}

TEST(AwsBatch, MainNode_UsesItsOwnAddress) {
  const Variables main = with(without(kBatch, {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"}),
                              {{"AWS_BATCH_JOB_NODE_INDEX", "1"}});
  TestSystem system;
  system.interfaces = {{"lo", "127.0.0.1", 8}, {"eth0", "10.0.0.7", 16}, {"docker0", "172.17.0.1", 16}};
  Place place = place_of(main, "", system);
  EXPECT_EQ(place.process_id, 0);
  EXPECT_EQ(place.coordinator_address, place_of(kBatch).coordinator_address);
  EXPECT_EQ(place_of(with(main, {{"LOCKSTEP_INTERFACE", "docker0"}}), "", system).coordinator_address,
            "172.17.0.1:55527");
  EXPECT_THAT(error_of(main), HasSubstr("LOCKSTEP_COORDINATOR_ADDRESS"));
}

TEST(AwsBatch, ArrayJobs_AreSingleProcesses) {
  EXPECT_EQ(place_of({{"AWS_BATCH_JOB_ID", "9a8b:3"}, {"AWS_BATCH_JOB_ARRAY_INDEX", "3"}}).cluster, "single");
}

TEST(SageMaker, MeetsAtTheFirstHost_ByVariablesOrByItsFile) {
  TestSystem container;
  container.files["/opt/ml/input/config/resourceconfig.json"] =
      R"({"current_host":"algo-2","hosts":["algo-1","algo-2"],"network_interface_name":"eth0"})";
  for (const Place& place :
       {place_of(kSageMaker), place_of({{"TRAINING_JOB_NAME", "run-7"}}, "", container)}) {
    EXPECT_EQ(place.cluster, "sagemaker");
    EXPECT_EQ(place.num_processes, 2);
    EXPECT_EQ(place.process_id, 1);
    EXPECT_EQ(place.coordinator_address, "algo-1:55527");
    EXPECT_EQ(place.job_id, "sagemaker-run-7");
  }
  EXPECT_EQ(place_of({{"SM_HOSTS", R"(["algo-1"])"}, {"SM_CURRENT_HOST", "algo-1"}}).num_processes, 1);
  EXPECT_THAT(error_of(with(kSageMaker, {{"SM_CURRENT_HOST", "algo-3"}})),
              HasSubstr("'algo-3' is not among its hosts: algo-1, algo-2"));
  for (const char* bad : {"algo-1,algo-2", "[]", R"(["a","a"])", "[1,2]", R"(["algo-1",""])"})
    EXPECT_THAT(error_of(with(kSageMaker, {{"SM_HOSTS", bad}})), HasSubstr("SM_HOSTS")) << bad;
}

TEST(SkyPilot, MeetsAtTheFirstNode) {
  Place place = place_of(kSkyPilot);
  EXPECT_EQ(place.cluster, "skypilot");
  EXPECT_EQ(place.num_processes, 2);
  EXPECT_EQ(place.process_id, 1);
  EXPECT_THAT(place.coordinator_address, StartsWith("10.0.0.1:6"));
  EXPECT_THAT(place.why, HasSubstr("SKYPILOT_NODE_IPS=10.0.0.1,10.0.0.2"));
  EXPECT_EQ(place_of(without(kSkyPilot, {"SKYPILOT_TASK_ID"})).coordinator_address, "10.0.0.1:55527");
  EXPECT_EQ(
      place_of({{"SKYPILOT_NUM_NODES", "1"}, {"SKYPILOT_NODE_RANK", "0"}, {"SKYPILOT_NODE_IPS", "10.0.0.1"}})
          .coordinator_address,
      "");
}

TEST(Pals, WithPmi_StaysOnLoopbackOnOneHost_AndAsksForTheAddressOnSeveral) {
  const Variables pals = {{"PALS_APID", "6b1e"},  {"PALS_RANKID", "1"}, {"PALS_LOCAL_RANKID", "1"},
                          {"PMI_RANK", "1"},      {"PMI_SIZE", "2"},    {"PMI_LOCAL_SIZE", "2"},
                          {"PMI_LOCAL_RANK", "1"}};
  Place place = place_of(pals);
  EXPECT_EQ(place.cluster, "pmi");
  EXPECT_EQ(place.local_process_id, 1);
  EXPECT_EQ(place.job_id, "pals-6b1e");
  EXPECT_THAT(place.coordinator_address, StartsWith("127.0.0.1:6"));
  EXPECT_THAT(error_of(with(pals, {{"PMI_LOCAL_SIZE", "1"}})), HasSubstr("LOCKSTEP_COORDINATOR_ADDRESS"));
}

TEST(Explicit, OneProcess_WhereALauncherStartedSeveral_IsRefused) {
  const Variables alone = {
      {"LOCKSTEP_COORDINATOR_ADDRESS", "a:1"}, {"LOCKSTEP_NUM_PROCESSES", "1"}, {"LOCKSTEP_PROCESS_ID", "0"}};
  for (const Variables& variables : {kTorchrun, kPyTorchJob, kHorovod, kLws, kBatch, kSageMaker, kSkyPilot})
    EXPECT_THAT(error_of(with(variables, alone)), HasSubstr("started several")) << variables.begin()->first;
}

}  // namespace
}  // namespace lockstep::cluster
