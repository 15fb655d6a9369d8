// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/cluster/node_list.h"
#include "lockstep/cluster/test_system.h"

namespace lockstep::cluster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(NodeList, NamesAndBrackets_AreExpandedInOrder) {
  EXPECT_THAT(expand_node_list("node1"), ElementsAre("node1"));
  EXPECT_THAT(expand_node_list("b,a"), ElementsAre("b", "a"));
  EXPECT_THAT(expand_node_list("node[1-3]"), ElementsAre("node1", "node2", "node3"));
  EXPECT_THAT(expand_node_list("node[001,009-011],login"),
              ElementsAre("node001", "node009", "node010", "node011", "login"));
  EXPECT_THAT(expand_node_list("n[9-11]-ib,n[7]"), ElementsAre("n9-ib", "n10-ib", "n11-ib", "n7"));
  EXPECT_THAT(expand_node_list("x[08-10]"), ElementsAre("x08", "x09", "x10"));
}

TEST(NodeList, SeveralBracketsInAName_AreExpandedAsScontrolDoes) {
  // scontrol show hostnames 'a[1-3,007-010]b[2-3],c[01]'
  EXPECT_THAT(expand_node_list("a[1-3,007-010]b[2-3],c[01]"),
              ElementsAre("a1b2", "a1b3", "a2b2", "a2b3", "a3b2", "a3b3", "a007b2", "a007b3", "a008b2",
                          "a008b3", "a009b2", "a009b3", "a010b2", "a010b3", "c01"));
  EXPECT_THAT(expand_node_list("r[1-2]c[0-1]n[5]x"), ElementsAre("r1c0n5x", "r1c1n5x", "r2c0n5x", "r2c1n5x"));
}

TEST(NodeList, InvalidText_IsRefused) {
  for (const char* bad : {"",
                          ",",
                          "a,",
                          ",a",
                          "a[",
                          "a]",
                          "a[]",
                          "a[1",
                          "a[1-]",
                          "a[-1]",
                          "a[3-1]",
                          "a[x]",
                          "a[1,]",
                          "a[1-2-3]",
                          "a[[1]]",
                          "a[1][",
                          "a]1[",
                          "a[1-99999999]",
                          "a[000x133]",
                          "a[99999999999999999999]",
                          "a[1-1000]b[1-1000]c[1-1000]"}) {
    EXPECT_THROW(expand_node_list(bad), InitializationError) << bad;
  }
}

TEST(NodeList, TooManyOrTooLongNames_AreRefused) {
  std::string brackets = "a", ranges = "a[";
  for (int i = 0; i < 100'000; ++i) brackets += "[1]";
  for (int i = 0; i < 100; ++i) ranges += "1-900000,";
  for (const std::string& bad :
       {brackets, std::string(300, 'a') + "[1-1000000]", ranges + "1]", std::string("a[1-999999,1-999999]"),
        std::string(100'000, '['), std::string(256, 'a')})
    EXPECT_THROW(expand_node_list(bad), InitializationError) << bad.substr(0, 60);
  EXPECT_EQ(expand_node_list("a[1-1000000]").size(), 1'000'000);
  EXPECT_EQ(expand_node_list("a[1-1000][1-1000]").size(), 1'000'000);
}

TEST(Slurm, StepOverTwoNodes_GivesThePlace) {
  Place place = place_of(recorded("slurm-srun"));
  EXPECT_EQ(place.cluster, "slurm");
  EXPECT_EQ(place.num_processes, 4);
  EXPECT_EQ(place.process_id, 1);
  EXPECT_EQ(place.local_process_id, 1);
  EXPECT_FALSE(place.local_device_ids);
  EXPECT_EQ(place.coordinator_address, "node1:61441");
  EXPECT_EQ(place.job_id, "slurm-one-1.0");
  EXPECT_EQ(place.attempt, 0);
  EXPECT_THAT(place.why, AllOf(HasSubstr("SLURM_STEP_NUM_TASKS=4"), HasSubstr("SLURM_PROCID=1"),
                               HasSubstr("SLURM_STEP_NODELIST=node[1-2]")));
}

TEST(Slurm, AllTasks_AgreeOnTheCoordinator) {
  Place last = place_of(recorded("slurm-srun-last"));
  EXPECT_EQ(last.process_id, 3);
  EXPECT_EQ(last.local_process_id, 0);
  EXPECT_EQ(last.coordinator_address, place_of(recorded("slurm-srun")).coordinator_address);
  EXPECT_EQ(last.job_id, place_of(recorded("slurm-srun")).job_id);
}

TEST(Slurm, StepOnOneNode_StaysOnLoopback) {
  Place place = place_of(recorded("slurm-srun-one-node"));
  EXPECT_EQ(place.num_processes, 2);
  EXPECT_EQ(place.coordinator_address, "127.0.0.1:61442");
}

TEST(Slurm, StepWithPmi2OrPmix_IsDetectedAsSlurm) {
  Place pmi2 = place_of(recorded("slurm-srun-pmi2"));
  EXPECT_EQ(pmi2.cluster, "slurm");
  EXPECT_EQ(pmi2.process_id, 3);
  Place pmix =
      place_of(with(recorded("slurm-srun"), {{"PMIX_RANK", "1"},
                                             {"PMIX_NAMESPACE", "slurm.pmix.1.0"},
                                             {"PMIX_SERVER_URI2", "pmix-server.99;tcp4://127.0.0.1:5"},
                                             {"SLURM_PMIXP_ABORT_AGENT_PORT", "40111"}}));
  EXPECT_EQ(pmix.cluster, "slurm");
  EXPECT_EQ(pmix.process_id, 1);
}

TEST(Slurm, ShellsOfSbatchAndSalloc_AreSingleProcesses) {
  for (const char* shell : {"slurm-sbatch-shell", "slurm-salloc-shell"}) {
    Place place = place_of(recorded(shell));
    EXPECT_EQ(place.cluster, "single") << shell;
    EXPECT_EQ(place.num_processes, 1) << shell;
    EXPECT_THAT(place.why, HasSubstr("srun starts one")) << shell;
  }
}

TEST(Slurm, StepsOfAnAllocation_HaveTheirOwnSizeAndPort) {
  Place script = place_of(recorded("slurm-sbatch-srun"));
  EXPECT_EQ(script.num_processes, 4);
  EXPECT_EQ(script.coordinator_address, "node1:61443");
  Place part = place_of(recorded("slurm-salloc-srun"));
  EXPECT_EQ(part.num_processes, 3);
  EXPECT_EQ(part.process_id, 2);
  const Variables other = {{"SLURM_STEP_ID", "1"}};
  EXPECT_NE(place_of(with(recorded("slurm-sbatch-srun"), other)).coordinator_address,
            script.coordinator_address);
}

TEST(Slurm, StepOfOneTask_NeedsNoCoordinator) {
  Place place = place_of(recorded("slurm-sbatch-second-step"));
  EXPECT_EQ(place.cluster, "slurm");
  EXPECT_EQ(place.num_processes, 1);
  EXPECT_EQ(place.coordinator_address, "");
}

TEST(Slurm, JobNumberAbove31Bits_GivesAPort) {
  const Variables federated =
      with(recorded("slurm-srun"), {{"SLURM_JOB_ID", "4093641729"}, {"SLURM_JOBID", ""}});
  EXPECT_EQ(place_of(federated).coordinator_address, "node1:62465");  // 4093641729 mod 4096
  EXPECT_EQ(place_of(federated).job_id, "slurm-one-4093641729.0");
  for (const char* bad : {"x", "-1", "99999999999999999999"})
    EXPECT_THAT(error_of(with(federated, {{"SLURM_JOB_ID", bad}})), HasSubstr("SLURM_JOB_ID is")) << bad;
}

TEST(Slurm, RequeuedJob_IsAnotherAttempt) {
  EXPECT_EQ(place_of(with(recorded("slurm-srun"), {{"SLURM_RESTART_COUNT", "2"}})).attempt, 2);
}

TEST(Slurm, AddressOrPortSetByHand_Wins) {
  EXPECT_EQ(
      place_of(with(recorded("slurm-srun"), {{"JAX_COORDINATOR_ADDRESS", "head:1"}})).coordinator_address,
      "head:1");
  EXPECT_EQ(place_of(with(recorded("slurm-srun"), {{"LOCKSTEP_COORDINATOR_PORT", "77"}})).coordinator_address,
            "node1:77");
}

TEST(Slurm, StepWithMissingVariables_IsOneErrorThatListsSetAndMissing) {
  EXPECT_THAT(error_of(without(recorded("slurm-srun"), {"SLURM_PROCID"})),
              AllOf(HasSubstr("Slurm's step gives this process only a part of its place in a job: "),
                    HasSubstr("SLURM_STEP_ID=0, SLURM_STEP_NUM_TASKS=4, SLURM_STEP_NODELIST=node[1-2]"),
                    HasSubstr("SLURM_PROCID missing"), HasSubstr("LOCKSTEP_CLUSTER=none")));
  EXPECT_THAT(error_of(without(recorded("slurm-srun"),
                               {"SLURM_STEP_ID", "SLURM_STEPID", "SLURM_JOB_ID", "SLURM_JOBID"})),
              HasSubstr("SLURM_STEP_ID, SLURM_JOB_ID missing"));
}

TEST(Slurm, NumbersThatContradictEachOther_AreAnError) {
  EXPECT_THAT(error_of(with(recorded("slurm-srun"), {{"SLURM_PROCID", "4"}})),
              HasSubstr("SLURM_PROCID=4 is out of range: SLURM_STEP_NUM_TASKS=4"));
  EXPECT_THAT(error_of(with(recorded("slurm-srun"), {{"SLURM_STEP_NODELIST", "node[1-"}})),
              HasSubstr("'node[1-' is not a node list"));
  EXPECT_THAT(error_of(with(recorded("slurm-srun"), {{"SLURM_STEP_NUM_NODES", "3"}})),
              HasSubstr("SLURM_STEP_NODELIST=node[1-2] names 2 nodes, but SLURM_STEP_NUM_NODES=3"));
}

TEST(Slurm, Forced_IsUsedEvenIfAnMpiStartedTheProcess) {
  EXPECT_EQ(place_of(with(recorded("slurm-srun"), recorded("ompi4")), "slurm").cluster, "slurm");
}

}  // namespace
}  // namespace lockstep::cluster
