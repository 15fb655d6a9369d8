// SPDX-License-Identifier: Apache-2.0
// A job over two hosts with a network between them: it trains, and its processes are told when one dies and
// when the network does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lockstep/pjrt/plugin.h"
#include "lockstep/testing/certificates.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProcessResult;
using testing::run_processes;
using testing::Variables;

/// The training of the digits as 2 processes on each of 2 hosts; see start_on_hosts.sh.
class TwoHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "hosts of one's own need root";
    const ProcessResult tried =
        run_processes({.program = LOCKSTEP_TWO_HOSTS, .arguments = {"/bin/true"}}).front();
    if (tried.exit_code != 0) GTEST_SKIP() << "no hosts can be made here: " << tried.log;
  }

  std::string train(const std::string& what, const std::vector<std::string>& arguments,
                    const Variables& env = {}) {
    std::vector<std::string> all = {LOCKSTEP_START_ON_HOSTS, what, LOCKSTEP_TRAIN_DIGITS};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run(all, env);
  }

  std::string run(const std::vector<std::string>& all, const Variables& env = {}) {
    const ProcessResult result = run_processes({.program = LOCKSTEP_TWO_HOSTS,
                                                .arguments = all,
                                                .env = env,
                                                .deadline = std::chrono::seconds(150)})
                                     .front();
    EXPECT_EQ(result.exit_code, 0);
    return result.log;
  }

  /// From what was done to the end of all.
  static double seconds(const std::string& log) {
    const auto at = log.rfind(" s after");
    return at == std::string::npos ? -1 : std::stod(log.substr(log.rfind('\n', at) + 1));
  }
};

TEST_F(TwoHosts, TrainTheDigitsTogether) {
  const std::string log = train("nothing", {});
  for (int i = 0; i < 4; ++i) EXPECT_THAT(log, HasSubstr("process " + std::to_string(i) + " ended with 0"));
  double accuracy = 0;
  const auto at = log.find("test accuracy ");
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(std::sscanf(log.c_str() + at, "test accuracy %lf", &accuracy), 1);
  EXPECT_GT(accuracy, 0.9);
}

TEST_F(TwoHosts, WithACoordinatorNameOfTheLoopback_ReachEachOther) {
  const std::string log = train("named", {"--epochs", "1"});
  for (int i = 0; i < 4; ++i) EXPECT_THAT(log, HasSubstr("process " + std::to_string(i) + " ended with 0"));
}

/// With certificates, what hosts say to each other goes through TLS.
class TwoHostsWithCertificates : public TwoHosts {
 protected:
  static Variables variables(const coordination::TlsFiles& files) {
    return {{"LOCKSTEP_TLS_CERTIFICATE", files.certificate},
            {"LOCKSTEP_TLS_KEY", files.key},
            {"LOCKSTEP_TLS_AUTHORITY", files.authority}};
  }

  const testing::TemporaryFolder folder_;
  const testing::TestAuthority authority_{folder_.path(), "ours"};
};

TEST_F(TwoHostsWithCertificates, TrainTheDigitsTogether) {
  for (const char* encrypt : {"0", "1"}) {
    Variables settings = variables(authority_.issue({.addresses = "IP:10.77.0.1"}));
    settings["LOCKSTEP_DATA_TLS"] = encrypt;
    const std::string log = train("nothing", {"--epochs", "2"}, settings);
    for (int i = 0; i < 4; ++i) EXPECT_THAT(log, HasSubstr("process " + std::to_string(i) + " ended with 0"));
  }
}

TEST_F(TwoHostsWithCertificates, WhenAProcessIsKilled_TheOthersOnBothHostsNameIt) {
  const std::string log = train("kill", {"--epochs", "100000", "--print-losses"},
                                variables(authority_.issue({.addresses = "IP:10.77.0.1"})));
  for (int i : {0, 1, 2})
    EXPECT_THAT(log, ContainsRegex("\\[" + std::to_string(i) + "\\] .*process 3 [^\n]*host2[^\n]*"));
  EXPECT_LT(seconds(log), 15) << "2 s on a machine that has time";
}

TEST_F(TwoHostsWithCertificates, WithoutTheCoordinatorsAddressInThem_FailNamingIt) {
  // Process 0 ends at once, and the coordinator with it; who comes later finds nobody there.
  Variables settings = variables(authority_.issue({.addresses = "IP:10.77.0.9"}));
  settings["LOCKSTEP_INITIALIZATION_TIMEOUT"] = "5";
  const std::string log = train("nothing", {}, settings);
  for (int i = 0; i < 4; ++i) EXPECT_THAT(log, HasSubstr("process " + std::to_string(i) + " ended with 1"));
  EXPECT_THAT(log, HasSubstr("its certificate does not name '10.77.0.1' in its subjectAltName"));
}

TEST_F(TwoHosts, WhenAProcessIsKilled_TheOthersOnBothHostsNameIt) {
  for (const char* encrypt : {"0", "1"}) {
    const std::string log =
        train("kill", {"--epochs", "100000", "--print-losses"}, {{"LOCKSTEP_DATA_TLS", encrypt}});
    for (int i : {0, 1, 2}) {
      EXPECT_THAT(log, ContainsRegex("\\[" + std::to_string(i) + "\\] .*process 3 [^\n]*host2[^\n]*"));
      EXPECT_THAT(log, HasSubstr("process " + std::to_string(i) + " ended with 1"));
    }
    EXPECT_LT(seconds(log), 15) << "2 s on a machine that has time";
  }
}

/// The launcher is beside the hosts, and reaches them as by ssh.
TEST_F(TwoHosts, StartedWithEncrypt_ExchangeDataOverTls) {
  const testing::TemporaryFolder folder;
  const std::string rsh = folder.path() / "rsh";
  std::ofstream(rsh) << "#!/bin/sh\nhost=${1#host}; shift; exec \"$ON\" \"$host\" sh -c \"$*\"\n";
  std::filesystem::permissions(rsh, std::filesystem::perms::owner_all);
  const std::string log = run({LOCKSTEP_TOOL, "run", "--hosts", "host1:1,host2:1", "--rsh", rsh,
                               "--coordinator-address", "10.77.0.254", "--encrypt", "--", LOCKSTEP_EXCHANGE},
                              {{"LOCKSTEP_LOG", "debug"}});
  for (int i : {0, 1}) {
    const std::string host = std::to_string(i + 1);
    EXPECT_THAT(log, HasSubstr("[" + std::to_string(i) + "@host" + host + "] largest difference 0\n"));
    EXPECT_THAT(log, HasSubstr("TCP from 10.77.0." + host + ":0 with TLS"));
  }
}

TEST_F(TwoHosts, EncryptionOffInOneProcess_IsAnErrorThatNamesIt) {
  const std::string log =
      run({LOCKSTEP_START_ON_HOSTS, "nothing", "sh", "-c",
           "LOCKSTEP_DATA_TLS=$((LOCKSTEP_PROCESS_ID != 2)) exec \"$0\"", LOCKSTEP_EXCHANGE});
  EXPECT_THAT(
      log, ContainsRegex("\\[2\\] .*data_tls is false in process 2 of 4, but true in process 0: set it, or "
                         "LOCKSTEP_DATA_TLS"));
  for (int i = 0; i < 4; ++i) EXPECT_THAT(log, HasSubstr("process " + std::to_string(i) + " ended with 1"));
}

/// Lost data is then sent again, later by one connection than by another: a waiting receiver must not think
/// that the sender, which has gone on, does something else.
TEST_F(TwoHosts, WhenTheCableIsCutForAMoment_Continue) {
  for (const char* seconds : {"1", "1.5"}) {
    const std::string log = train("cut-short", {"--epochs", "120", "--print-losses"},
                                  {{"LOCKSTEP_HEARTBEAT_TIMEOUT", "30"}, {"CUT_SECONDS", seconds}});
    for (int i = 0; i < 4; ++i) EXPECT_THAT(log, HasSubstr("process " + std::to_string(i) + " ended with 0"));
  }
}

TEST_F(TwoHosts, WhenTheNetworkIsSlow_WaitForEachOther) {
  // 16 MiB go each way, in more than three seconds.
  const std::string log = run({"-r", "40mbit", LOCKSTEP_START_ON_HOSTS, "nothing", LOCKSTEP_EXCHANGE});
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(log, HasSubstr("[" + std::to_string(i) + "] largest difference 0\n"));
    EXPECT_THAT(log, HasSubstr("process " + std::to_string(i) + " ended with 0"));
  }
}

TEST_F(TwoHosts, Sums_OverlapWithComputations) {
  const std::string log = run({"-r", "1gbit", LOCKSTEP_START_ON_HOSTS, "nothing", LOCKSTEP_BESIDE});
  for (int i = 0; i < 4; ++i) {
    const std::string process = "[" + std::to_string(i) + "] ";
    EXPECT_THAT(log, HasSubstr(process + "the sum is beside\n"));
    EXPECT_THAT(log, HasSubstr(process + "largest difference 0\n"));
    EXPECT_THAT(log, HasSubstr("process " + std::to_string(i) + " ended with 0"));
  }
}

TEST_F(TwoHosts, WhenAProcessIsKilledWhileSumsAreInFlight_TheOthersNameIt) {
  const std::string log = run({"-r", "200mbit", LOCKSTEP_START_ON_HOSTS, "kill", LOCKSTEP_BESIDE, "1000000"});
  for (int i : {0, 1, 2}) {
    EXPECT_THAT(log, ContainsRegex("\\[" + std::to_string(i) + "\\] .*process 3 [^\n]*host2[^\n]*"));
    EXPECT_THAT(log, HasSubstr("process " + std::to_string(i) + " ended with "));
    EXPECT_THAT(log, Not(HasSubstr("process " + std::to_string(i) + " ended with 0")));
  }
}

/// Where a cluster says how UCX is to go, it carries what CPUs say to each other. GPUs have their plugin's
/// own network, and a UCX that takes hold of their memory would only be in its way.
TEST_F(TwoHosts, WithGpus_DoNotLoadUcx_EvenIfItIsConfigured) {
  const testing::TemporaryFolder folder;
  for (const bool on_gpus : {false, true}) {
    Variables settings = {{"UCX_TLS", "tcp"}};
    if (on_gpus) {
      settings.insert({{"GPU_ON_CPU_BEHIND", pjrt::find_plugin()},
                       {"GPU_ON_CPU_FOLDER", folder.path().string()},
                       {"LOCKSTEP_PJRT_PLUGIN", GPU_ON_CPU_PLUGIN},
                       {"NPROC", "2"}});
    }
    const std::string log = run({LOCKSTEP_START_ON_HOSTS, "nothing", LOCKSTEP_EXCHANGE}, settings);
    for (int i = 0; i < 4; ++i) {
      const std::string process = "[" + std::to_string(i) + "] ";
      EXPECT_THAT(log, HasSubstr(process + "largest difference 0\n"));
      EXPECT_THAT(log, HasSubstr(process + "UCX is " + (on_gpus ? "not loaded" : "loaded")));
    }
  }
}

TEST_F(TwoHosts, WhenTheCableIsCut_BothSidesEndWithAnErrorAfterTheHeartbeatTimeout) {
  const std::string log = train("cut", {"--epochs", "100000", "--print-losses"},
                                {{"LOCKSTEP_HEARTBEAT_TIMEOUT", "5"}, {"LOCKSTEP_SHUTDOWN_TIMEOUT", "5"}});
  for (int i = 0; i < 4; ++i) EXPECT_THAT(log, HasSubstr("process " + std::to_string(i) + " ended with 1"));
  EXPECT_THAT(log, ContainsRegex("\\[0\\] .*process [23] "));
  EXPECT_LT(seconds(log), 40);
}

}  // namespace
}  // namespace lockstep
