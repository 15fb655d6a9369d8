// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/cluster/test_system.h"

namespace lockstep::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(OpenMpi4, OnOneHost_StaysOnLoopback) {
  Place place = place_of(recorded("ompi4"));
  EXPECT_EQ(place.cluster, "ompi");
  EXPECT_EQ(place.num_processes, 3);
  EXPECT_EQ(place.process_id, 1);
  EXPECT_EQ(place.local_process_id, 1);
  EXPECT_EQ(place.coordinator_address, "127.0.0.1:63616");  // 780664832 / 4096 mod 4096
  EXPECT_EQ(place.job_id, "ompi-780664832");
  EXPECT_THAT(place.why, AllOf(HasSubstr("OMPI_COMM_WORLD_SIZE=3"), HasSubstr("OMPI_COMM_WORLD_RANK=1")));
}

TEST(OpenMpi4, OnSeveralHosts_MeetsAtMpirun) {
  const Variables one_of_two = {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_EQ(place_of(with(recorded("ompi4"), one_of_two)).coordinator_address, "192.0.2.2:63616");
  auto address_for = [&](const std::string& uri) {
    return place_of(with(recorded("ompi4"), with(one_of_two, {{"OMPI_MCA_orte_hnp_uri", uri}})))
        .coordinator_address;
  };
  // The two forms that JAX's source documents.
  EXPECT_EQ(address_for("1531576320.0;tcp://10.96.0.1,10.148.0.1,10.108.0.1:34911"), "10.96.0.1:62624");
  EXPECT_EQ(address_for("1314521088.0;tcp6://[fe80::b9b:ac5d:9cf0:b858,2620:10d:c083:150e::3000:2]:43370"),
            "[fe80::b9b:ac5d:9cf0:b858]:62880");
}

TEST(OpenMpi4, WithAnInterface_TakesMpirunsAddressInItsNetwork) {
  TestSystem system;
  system.interfaces = {{"eth0", "10.96.0.7", 16}, {"ib0", "10.148.3.9", 16}};
  const Variables variables =
      with(recorded("ompi4"),
           {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
            {"OMPI_MCA_orte_hnp_uri", "1531576320.0;tcp://10.96.0.1,10.148.0.1,10.108.0.1:34911"}});
  auto address_on = [&](const std::string& interface) {
    return place_of(with(variables, {{"LOCKSTEP_INTERFACE", interface}}), "", system).coordinator_address;
  };
  EXPECT_EQ(address_on("ib0"), "10.148.0.1:62624");
  EXPECT_EQ(address_on("eth0"), "10.96.0.1:62624");
}

TEST(OpenMpi5, OnOneHost_StaysOnLoopback) {
  Place place = place_of(recorded("ompi5"));
  EXPECT_EQ(place.cluster, "ompi");
  EXPECT_EQ(place.num_processes, 3);
  EXPECT_EQ(place.process_id, 1);
  EXPECT_EQ(place.local_process_id, 2);
  EXPECT_EQ(place.coordinator_address, "127.0.0.1:61597");  // 20637 mod 4096
  EXPECT_EQ(place.job_id, "ompi-prterun-vm-20637@1");
}

TEST(OpenMpi5, OnSeveralHosts_MeetsAtMpirunsHost) {
  auto address_for = [&](const std::string& name) {
    return place_of(with(recorded("ompi5"), {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"PMIX_NAMESPACE", name}}))
        .coordinator_address;
  };
  EXPECT_EQ(address_for("prterun-node18-12345@1"), "node18:61497");  // JAX's port
  EXPECT_EQ(address_for("prterun-my-host-3-77@1"), "my-host-3:61517");
  EXPECT_EQ(address_for("prte-node18-12345@3"), "node18:61499");  // jobs of one daemon
}

TEST(OpenMpi, InASlurmAllocation_WinsOverSlurm) {
  for (const char* ompi : {"ompi4", "ompi5"}) {
    EXPECT_EQ(place_of(with(recorded("slurm-srun"), recorded(ompi))).cluster, "ompi") << ompi;
  }
}

TEST(OpenMpi, AddressSetByHand_NeedsNoMpirun) {
  Place place = place_of({{"OMPI_COMM_WORLD_SIZE", "2"},
                          {"OMPI_COMM_WORLD_RANK", "0"},
                          {"LOCKSTEP_COORDINATOR_ADDRESS", "a:5"}});
  EXPECT_EQ(place.coordinator_address, "a:5");
  EXPECT_EQ(place.job_id, "");
}

TEST(OpenMpi, HalfSet_IsOneErrorThatListsSetAndMissing) {
  EXPECT_THAT(error_of(without(recorded("ompi4"), {"OMPI_COMM_WORLD_RANK"})),
              AllOf(HasSubstr("Open MPI gives this process only a part of its place in a job"),
                    HasSubstr("OMPI_COMM_WORLD_SIZE=3"), HasSubstr("OMPI_COMM_WORLD_RANK missing")));
  EXPECT_THAT(error_of(without(recorded("ompi5"), {"PMIX_NAMESPACE"})), HasSubstr("PMIX_NAMESPACE missing"));
}

TEST(OpenMpi, WithoutMpirunsHost_SaysWhatToSet) {
  for (const char* name : {"780664833", "prterun", "prterun-1@1", "a-b@c"}) {
    EXPECT_THAT(error_of(with(recorded("ompi5"), {{"PMIX_NAMESPACE", name}})),
                AllOf(HasSubstr(std::string("PMIX_NAMESPACE=") + name + " does not say on which host"),
                      HasSubstr("LOCKSTEP_COORDINATOR_ADDRESS")));
  }
  EXPECT_THAT(error_of(with(recorded("ompi4"), {{"OMPI_MCA_orte_hnp_uri", "x"}})),
              HasSubstr("OMPI_MCA_orte_hnp_uri=x does not say"));
}

/// A shell below Hydra's proxy, as /proc shows it; `command` is the proxy's, its words apart.
TestSystem below_proxy(const std::vector<std::string>& command) {
  TestSystem system;
  std::string line;
  for (const std::string& word : command) line += word + '\0';
  system.files = {{"/proc/self/stat", "120 (train (x) y) S 110 1 1"},
                  {"/proc/110/stat", "110 (sh) S 100 1 1"},
                  {"/proc/110/cmdline", std::string("sh\0-c\0train\0", 12)},
                  {"/proc/100/stat", "100 (hydra_pmi_proxy) S 1 1 1"},
                  {"/proc/100/cmdline", line}};
  return system;
}

/// As recorded of MPICH 4.0.2.
TestSystem mpich_proxy() {
  return below_proxy({"/usr/bin/hydra_pmi_proxy",
                      "--control-port",
                      "vm:33151",
                      "--rmk",
                      "user",
                      "--launcher",
                      "ssh",
                      "--demux",
                      "poll",
                      "--pgid",
                      "0",
                      "--retries",
                      "10",
                      "--usize",
                      "-2",
                      "--pmi-port",
                      "0",
                      "--gpus-per-proc",
                      "-2",
                      "--proxy-id",
                      "1"});
}

/// As recorded of Intel MPI 2021.18.
TestSystem intel_proxy() {
  return below_proxy({"/opt/intel/bin//hydra_pmi_proxy", "--usize", "-1", "--auto-cleanup", "1"});
}

TEST(Mpich, OnOneHost_StaysOnLoopback) {
  Place place = place_of(recorded("mpich"), "", mpich_proxy());
  EXPECT_EQ(place.cluster, "pmi");
  EXPECT_EQ(place.num_processes, 3);
  EXPECT_EQ(place.process_id, 1);
  EXPECT_EQ(place.local_process_id, 1);
  EXPECT_EQ(place.coordinator_address, "127.0.0.1:61823");  // 33151 mod 4096
  EXPECT_EQ(place.job_id, "pmi-vm:33151");
}

TEST(Mpich, OnSeveralHosts_MeetsAtMpiexec) {
  Place place = place_of(recorded("mpich-two-hosts"), "", mpich_proxy());
  EXPECT_EQ(place.num_processes, 4);
  EXPECT_EQ(place.process_id, 3);
  EXPECT_EQ(place.coordinator_address, "vm:61823");
}

TEST(Mpich, InASlurmAllocation_WinsOverSlurm) {
  Place place = place_of(recorded("mpich-in-slurm"), "", mpich_proxy());
  EXPECT_EQ(place.cluster, "pmi");
  EXPECT_EQ(place.num_processes, 4);
  EXPECT_EQ(place.process_id, 3);
}

TEST(Mpich, WithoutAVisibleProxy_SaysWhatToSet) {
  for (const TestSystem& system : {TestSystem(), below_proxy({"/usr/bin/hydra_pmi_proxy"}),
                                   below_proxy({"hydra_pmi_proxy", "--control-port", "x"}),
                                   below_proxy({"/usr/bin/vi", "--control-port", "vm:33151"})}) {
    EXPECT_THAT(error_of(recorded("mpich"), "", system),
                AllOf(HasSubstr("PMI_RANK=1, PMI_SIZE=3"), HasSubstr("LOCKSTEP_COORDINATOR_ADDRESS")));
  }
  EXPECT_EQ(place_of(with(recorded("mpich"), {{"LOCKSTEP_COORDINATOR_ADDRESS", "a:1"}})).coordinator_address,
            "a:1");
}

TEST(Mpich, ALoopOfParentProcesses_EndsTheSearchForTheProxy) {
  TestSystem system;
  system.files = {{"/proc/self/stat", "9 (a) S 8"}, {"/proc/8/stat", "8 (b) S 8"}};
  EXPECT_THAT(error_of(recorded("mpich"), "", system), HasSubstr("LOCKSTEP_COORDINATOR_ADDRESS"));
}

TEST(IntelMpi, OnOneHost_StaysOnLoopback) {
  Place place = place_of(recorded("intel"), "", intel_proxy());
  EXPECT_EQ(place.cluster, "pmi");
  EXPECT_EQ(place.num_processes, 3);
  EXPECT_EQ(place.process_id, 1);
  EXPECT_EQ(place.local_process_id, 1);
  EXPECT_THAT(place.coordinator_address, ::testing::StartsWith("127.0.0.1:6"));
  EXPECT_EQ(place.job_id, "pmi-544f0000-b3eb-5ecf-c960-06000144a456");
}

TEST(IntelMpi, OnSeveralHosts_IsAnErrorThatNamesTheAddressVariable) {
  EXPECT_THAT(error_of(recorded("intel-three-hosts"), "", intel_proxy()),
              AllOf(HasSubstr("PMI_RANK=3, PMI_SIZE=6"), HasSubstr("-genv LOCKSTEP_COORDINATOR_ADDRESS")));
  EXPECT_EQ(place_of(with(recorded("intel-three-hosts"), {{"LOCKSTEP_COORDINATOR_ADDRESS", "a:1"}}), "",
                     intel_proxy())
                .coordinator_address,
            "a:1");
}

TEST(Pmi, StartedWithPmiPort_IsAnErrorThatListsWhatIsMissing) {
  // mpiexec.hydra -pmi-port
  EXPECT_THAT(error_of({{"PMI_PORT", "vm:39647"}, {"PMI_ID", "1"}, {"MPI_LOCALNRANKS", "2"}}),
              AllOf(HasSubstr("PMI_ID=1"), HasSubstr("PMI_SIZE missing"), HasSubstr("-pmi-port")));
}

TEST(Pmi, RankOutOfRange_IsAnError) {
  EXPECT_THAT(error_of(with(recorded("mpich"), {{"PMI_RANK", "3"}})),
              HasSubstr("PMI_RANK=3 is out of range: PMI_SIZE=3 makes processes 0 to 2"));
}

TEST(Pmi, OneProcess_NeedsNoCoordinator) {
  Place place = place_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}});
  EXPECT_EQ(place.num_processes, 1);
  EXPECT_EQ(place.coordinator_address, "");
}

}  // namespace
}  // namespace lockstep::cluster
