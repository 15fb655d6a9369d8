// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/cluster/test_system.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
const Variables kExplicit = {{"LOCKSTEP_COORDINATOR_ADDRESS", "node1:8476"},
                             {"LOCKSTEP_NUM_PROCESSES", "4"},
                             {"LOCKSTEP_PROCESS_ID", "2"}};

TEST(ClusterTypes, HaveUniqueNames_AndTheLastGivesAPlaceInAnyEnvironment) {
  std::set<std::string> names;
  for (const ClusterType& type : kClusterTypes) EXPECT_TRUE(names.insert(type.name).second) << type.name;
  auto place = std::end(kClusterTypes)[-1].place(MapEnvironment({}), TestSystem());
  ASSERT_TRUE(place);
  EXPECT_EQ(place->cluster, std::end(kClusterTypes)[-1].name);
}

TEST(ClusterTypes, EachButTheLast_DetectsNothingInAnEmptyEnvironment) {
  for (const ClusterType& type : kClusterTypes) {
    if (&type == &std::end(kClusterTypes)[-1]) break;
    EXPECT_FALSE(type.place(MapEnvironment({}), TestSystem())) << type.name;
  }
}

TEST(Detect, NothingSet_IsASingleProcess) {
  Place place = place_of({});
  EXPECT_EQ(place.cluster, "single");
  EXPECT_EQ(place.num_processes, 1);
  EXPECT_EQ(place.process_id, 0);
  EXPECT_EQ(place.coordinator_address, "");
  EXPECT_FALSE(place.local_device_ids);
}

TEST(Detect, EmptyVariables_AreTreatedAsUnset) {
  EXPECT_EQ(place_of({{"LOCKSTEP_PROCESS_ID", ""}, {"LOCKSTEP_LAUNCHER", ""}}).cluster, "single");
}

TEST(Detect, ExplicitVariables_GiveThePlace) {
  Place place = place_of(with(kExplicit, {{"LOCKSTEP_LOCAL_DEVICE_IDS", "3,0"}}));
  EXPECT_EQ(place.cluster, "explicit");
  EXPECT_EQ(place.coordinator_address, "node1:8476");
  EXPECT_EQ(place.num_processes, 4);
  EXPECT_EQ(place.process_id, 2);
  EXPECT_THAT(*place.local_device_ids, ElementsAre(3, 0));
  EXPECT_FALSE(place.local_process_id);
  EXPECT_EQ(place_of(with(kExplicit, {{"LOCKSTEP_LOCAL_PROCESS_ID", "1"}})).local_process_id, 1);
  EXPECT_THAT(place.why,
              AllOf(HasSubstr("LOCKSTEP_PROCESS_ID=2"), HasSubstr("LOCKSTEP_LOCAL_DEVICE_IDS=3,0")));
}

TEST(Detect, JaxNames_AreReadWhereOursAreNotSet) {
  Place place = place_of({{"JAX_COORDINATOR_ADDRESS", "a:1"},
                          {"JAX_NUM_PROCESSES", "2"},
                          {"JAX_PROCESS_ID", "0"},
                          {"LOCKSTEP_PROCESS_ID", "1"}});
  EXPECT_EQ(place.coordinator_address, "a:1");
  EXPECT_EQ(place.process_id, 1);
}

TEST(Detect, HalfSet_ListsWhatIsThereAndWhatIsMissing) {
  EXPECT_THAT(
      error_of({{"LOCKSTEP_PROCESS_ID", "1"}, {"JAX_NUM_PROCESSES", "2"}}),
      HasSubstr("JAX_NUM_PROCESSES=2, LOCKSTEP_PROCESS_ID=1 set, LOCKSTEP_COORDINATOR_ADDRESS missing"));
  EXPECT_THAT(error_of({{"JAX_COORDINATOR_ADDRESS", "a:1"}}),
              HasSubstr("LOCKSTEP_NUM_PROCESSES, LOCKSTEP_PROCESS_ID missing"));
}

TEST(Detect, InvalidNumbers_AreErrorsThatNameTheVariable) {
  for (std::string bad : {"x", "-1", "1.5", " 1", "99999999999"}) {
    EXPECT_THAT(error_of(with(kExplicit, {{"LOCKSTEP_PROCESS_ID", bad}})),
                HasSubstr("LOCKSTEP_PROCESS_ID is '" + bad + "'"));
  }
  EXPECT_THAT(error_of(with(kExplicit, {{"LOCKSTEP_NUM_PROCESSES", "0"}})), HasSubstr("at least 1"));
  EXPECT_THAT(
      error_of(with(kExplicit, {{"LOCKSTEP_PROCESS_ID", "4"}})),
      HasSubstr("LOCKSTEP_PROCESS_ID=4 is out of range: LOCKSTEP_NUM_PROCESSES=4 makes processes 0 to 3"));
  for (std::string bad : {",", "0,", "0,0", "a", "0;1"}) {
    EXPECT_THAT(error_of(with(kExplicit, {{"LOCKSTEP_LOCAL_DEVICE_IDS", bad}})),
                HasSubstr("LOCKSTEP_LOCAL_DEVICE_IDS is '" + bad + "'"));
  }
}

TEST(Detect, Launcher_GivesTheJobsIdentity_AndTheReasonHidesTheSecret) {
  Place place = place_of(with(kExplicit, {{"LOCKSTEP_LAUNCHER", "1"},
                                          {"LOCKSTEP_JOB_ID", "job-7"},
                                          {"LOCKSTEP_ATTEMPT", "3"},
                                          {"LOCKSTEP_JOB_SECRET", "hush"}}));
  EXPECT_EQ(place.cluster, "launcher");
  EXPECT_EQ(place.process_id, 2);
  EXPECT_EQ(place.job_id, "job-7");
  EXPECT_EQ(place.attempt, 3);
  EXPECT_EQ(place.job_secret, "hush");
  EXPECT_THAT(place.why, AllOf(HasSubstr("LOCKSTEP_LAUNCHER=1"), Not(HasSubstr("hush"))));
}

TEST(Detect, LauncherWithoutItsVariables_IsAnErrorNotASingleProcess) {
  EXPECT_THAT(error_of({{"LOCKSTEP_LAUNCHER", "1"}}), HasSubstr("pass the environment on"));
  EXPECT_THAT(error_of({{"LOCKSTEP_LAUNCHER", "1"}, {"LOCKSTEP_PROCESS_ID", "0"}}),
              HasSubstr("LOCKSTEP_COORDINATOR_ADDRESS, LOCKSTEP_NUM_PROCESSES missing"));
}

TEST(Detect, ForcedType_IsTheOnlyOneAsked) {
  EXPECT_EQ(place_of(kExplicit, "single").cluster, "single");
  EXPECT_EQ(place_of(with(kExplicit, {{"LOCKSTEP_LAUNCHER", "1"}}), "explicit").cluster, "explicit");
  EXPECT_THAT(error_of({}, "explicit"), HasSubstr("no sign of it"));
  std::string names;
  for (const ClusterType& type : kClusterTypes) names += std::string(type.name) + ", ";
  EXPECT_THAT(error_of({}, "slorm"),
              HasSubstr("no cluster type 'slorm'; the types are " + names + "and none"));
}

TEST(Detect, NoneOrSingle_IgnoresEveryLauncher) {
  for (const char* none : {"none", "deactivate", "single"}) {
    Place place = place_of(with(recorded("slurm-srun"), kExplicit), none);
    EXPECT_EQ(place.cluster, "single");
    EXPECT_EQ(place.num_processes, 1);
    EXPECT_EQ(place.coordinator_address, "");
    EXPECT_THAT(place.why, HasSubstr(none));
  }
}

TEST(Detect, ExplicitVariables_WinOverALauncher) {
  for (const char* launcher : {"slurm-srun", "ompi4", "mpich", "intel"}) {
    Place place = place_of(with(recorded(launcher), kExplicit));
    EXPECT_EQ(place.cluster, "explicit") << launcher;
    EXPECT_EQ(place.process_id, 2) << launcher;
  }
}

TEST(Detect, JobIdentitySetByHand_IsAddedToALaunchersPlace) {
  Place place = place_of(with(recorded("slurm-srun"), {{"LOCKSTEP_JOB_SECRET", "hush"},
                                                       {"LOCKSTEP_JOB_ID", "mine"},
                                                       {"LOCKSTEP_ATTEMPT", "4"},
                                                       {"JAX_LOCAL_DEVICE_IDS", "1"}}));
  EXPECT_EQ(place.cluster, "slurm");
  EXPECT_EQ(place.job_secret, "hush");
  EXPECT_EQ(place.job_id, "mine");
  EXPECT_EQ(place.attempt, 4);
  EXPECT_THAT(*place.local_device_ids, ElementsAre(1));
  EXPECT_THAT(place.why, Not(HasSubstr("hush")));
}

TEST(Detect, NumbersSetByHandThatContradictALauncher_AreAnError) {
  EXPECT_THAT(error_of(with(recorded("slurm-srun"), {{"LOCKSTEP_NUM_PROCESSES", "8"}})),
              AllOf(HasSubstr("LOCKSTEP_NUM_PROCESSES=8, but cluster type 'slurm' says process 1 of 4"),
                    HasSubstr("SLURM_STEP_NUM_TASKS=4")));
  EXPECT_THAT(error_of(with(recorded("ompi4"), {{"JAX_PROCESS_ID", "0"}})),
              HasSubstr("JAX_PROCESS_ID=0, but cluster type 'ompi' says process 1 of 3"));
  EXPECT_EQ(place_of(with(recorded("slurm-srun"), {{"LOCKSTEP_NUM_PROCESSES", "4"}})).cluster, "slurm");
}

TEST(Detect, JobOfOneWhereALauncherStartedSeveral_IsAnError) {
  const Variables alone = with(kExplicit, {{"LOCKSTEP_NUM_PROCESSES", "1"}, {"LOCKSTEP_PROCESS_ID", "0"}});
  for (const char* launcher : {"slurm-srun", "ompi4", "ompi5", "mpich", "intel"}) {
    EXPECT_THAT(error_of(with(recorded(launcher), alone)),
                AllOf(HasSubstr("makes this process a job of one, but "), HasSubstr("started several")))
        << launcher;
    EXPECT_EQ(place_of(with(recorded(launcher), alone), "explicit").num_processes, 1) << launcher;
  }
}

TEST(Detect, SignsOfAnUnsupportedLauncher_AreAnErrorNotASingleProcess) {
  for (const Variables& variables :
       std::vector<Variables>{{{"MV2_COMM_WORLD_SIZE", "4"}}, {{"PALS_RANKID", "0"}}, {{"PMIX_RANK", "0"}}}) {
    const auto& [name, value] = *variables.begin();
    (void)name;
    EXPECT_THAT(error_of(variables),
                AllOf(HasSubstr("=" + value + " says that a launcher"), HasSubstr("LOCKSTEP_CLUSTER=none")));
    EXPECT_EQ(place_of(variables, "none").num_processes, 1);
    EXPECT_EQ(place_of(with(variables, kExplicit)).num_processes, 4);
  }
  EXPECT_EQ(place_of({{"WORLD_SIZE", "1"}}).cluster, "single");
}

TEST(Detect, EveryForcedTypeWithoutItsVariables_IsAnError) {
  for (const ClusterType& type : kClusterTypes) {
    if (std::string(type.name) == "single") continue;
    EXPECT_THAT(error_of({}, type.name),
                AllOf(HasSubstr(type.name), HasSubstr("was asked for, but the environment shows no sign")));
  }
}

TEST(FindPlace, WithoutALauncher_FindsNothing) {
  EXPECT_FALSE(find_place(MapEnvironment({}), "", TestSystem()));
  EXPECT_FALSE(find_place(MapEnvironment(recorded("slurm-sbatch-shell")), "", TestSystem()));
  EXPECT_TRUE(find_place(MapEnvironment(kExplicit), "", TestSystem()));
}

}  // namespace
}  // namespace lockstep::cluster
