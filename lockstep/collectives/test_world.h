// SPDX-License-Identifier: Apache-2.0
#pragma once

// Only for the tests of this folder.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/collectives/arena.h"
#include "lockstep/collectives/communicator.h"
#include "lockstep/collectives/world.h"
#include "lockstep/testing/folder_key_value_store.h"

namespace lockstep::collectives {

using testing::FolderKeyValueStore;

/// The distribution of a test's devices: device d belongs to process d / devices_per_process, and the
/// processes are distributed evenly over hosts, in order. Several hosts are simulated on this one.
struct Layout {
  int processes = 1;
  int devices_per_process = 1;
  int hosts = 1;
  const char* network = "tcp";  ///< between the hosts, as kNetworkVariable has it
  bool certificates = false;    ///< for it

  int devices() const { return processes * devices_per_process; }
  std::vector<int> device_process() const;
  std::vector<std::string> process_host() const;  ///< empty if there is one host
};

/// An environment variable of children: the number of simulated hosts, if the child does not set it itself.
inline constexpr const char* kHostsVariable = "TEST_HOSTS";

/// The same for the network between them: "ucx", "tcp", "tls", encrypted with the certificates of the child's
/// environment or else a secret; "tcp:4" and "tls:4" with that number of connections.
inline constexpr const char* kNetworkVariable = "TEST_NETWORK";

/// The arena from which the members of a test's Worlds read in place.
Arena* test_arena();

/// The World of a job of one process.
std::unique_ptr<World> local_world(int devices);

/// In a child of a test: the folder that the children share.
std::filesystem::path shared_folder();

/// In a child of a test: the options of this process's World, which uses `store`.
WorldOptions child_options(coordination::KeyValueStore& store, int devices_per_process = 1, int hosts = 1);

/// In a child of a test: this process's World, which uses the shared folder. `before` is called first.
class ChildWorld {
 public:
  explicit ChildWorld(int devices_per_process = 1, const std::function<void(int process)>& before = {},
                      int hosts = 1);

  World& operator*() { return *world_; }
  World* operator->() { return world_.get(); }
  int process() const { return world_->options().process_index; }

 private:
  FolderKeyValueStore store_;
  std::unique_ptr<World> world_;
};

/// Runs the body for each device of this process, each on a thread of its own, and waits for all of them.
void for_each_local_device(World& world, const std::function<void(int device)>& body);

/// Runs the body and returns the message of the E that it throws; if it throws none, a text that says so.
template <class E>
std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another exception: ") + error.what();
  }
  return "no exception";
}

/// A sum of `count` floats, with its description.
Call sum_call(int count, int members, const std::string& program = "f", std::int64_t index = 3,
              int line = 10);

}  // namespace lockstep::collectives
