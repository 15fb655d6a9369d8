// SPDX-License-Identifier: Apache-2.0
// Tests of what the system refuses, and of many starts and stops in one process.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lockstep/lockstep.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "lockstep/coordination/client/client.h"
#include "lockstep/coordination/server/server.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/inventory.h"
#include "lockstep/testing/isolation.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/rounds.h"

namespace lockstep {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Inventory;
using testing::run_processes;
using testing::say;

/// Somebody else's server, which never answers.
class TakenPort {
 public:
  TakenPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(socket_, 1), 0);
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~TakenPort() { close(socket_); }
  int port() const { return port_; }

 private:
  int socket_, port_;
};

LOCKSTEP_CHILD(initializes) {
  say("said: " + testing::error_of<InitializationError>([] { initialize(); }));
}

TEST(PortInUse, IsAnErrorThatNamesThePort) {
  TakenPort taken;
  const std::string address = "127.0.0.1:" + std::to_string(taken.port());
  const auto result = run_processes({.child = "initializes",
                                     .env = {{"LOCKSTEP_COORDINATOR_ADDRESS", address},
                                             {"LOCKSTEP_NUM_PROCESSES", "2"},
                                             {"LOCKSTEP_PROCESS_ID", "0"},
                                             {"LOCKSTEP_INITIALIZATION_TIMEOUT", "20"}}})[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_LT(result.ended_after, seconds(15));
  EXPECT_THAT(result.log, AllOf(HasSubstr("said: "), HasSubstr(address), HasSubstr("in use")));
}

LOCKSTEP_CHILD(sums_large_arrays) {
  initialize();
  const Array total = pmap([](Array x) { return psum(x, "i"); })(ones({1, 1 << 20}));
  EXPECT_EQ(total.to_host<float>().back(), static_cast<float>(device_count()));
}

TEST(FullSharedMemory, DoesNotPreventLargeSums) {
  if (std::string reason = testing::isolate(); !reason.empty()) GTEST_SKIP() << reason;
  testing::fill_shared_memory(64 << 10);
  for (const auto& result : run_processes({.count = 2, .child = "sums_large_arrays", .coordinator = true})) {
    EXPECT_EQ(result.exit_code, 0) << result.log;
  }
}

/// A coordinator and a job of two that meets, exchanges something and leaves.
void live_once() {
  coordination::CoordinationServer server;
  server.start({.num_processes = 2});
  auto member = [&](int process) {
    auto client = coordination::make_grpc_client(
        {.address = server.address(), .process_id = process, .num_processes = 2});
    client->connect();
    client->key_value_store().set("from/" + std::to_string(process), "x", false);
    client->barrier("b", seconds(30));
    client->shutdown();
  };
  std::thread other(member, 1);
  member(0);
  other.join();
  server.stop();
}

TEST(ManyStartsAndStops, InOneProcess_LeakNoDescriptorsOrThreads) {
  if (std::string reason = testing::isolate(); !reason.empty()) GTEST_SKIP() << reason;
  // gRPC makes its own threads and descriptors at first, and again when it sees more of the machine.
  for (int i = 0; i < 100; ++i) live_once();
  const Inventory before = Inventory::now();
  const int more = testing::rounds("LOCKSTEP_TEST_STARTS", 200, 900);
  for (int i = 0; i < more; ++i) live_once();
  const Inventory after = Inventory::now();
  EXPECT_EQ(left_over(before, after), "");
  EXPECT_LT(after.descriptors, before.descriptors + 10);
  EXPECT_LT(after.threads, before.threads + 10);
  std::printf("descriptors %d, then %d; threads %d, then %d\n", before.descriptors, after.descriptors,
              before.threads, after.threads);
}

}  // namespace
}  // namespace lockstep
