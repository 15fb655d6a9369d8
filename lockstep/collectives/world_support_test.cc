// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <thread>

#include "lockstep/collectives/test_world.h"
#include "lockstep/testing/child.h"

namespace lockstep::collectives {

std::vector<int> Layout::device_process() const {
  std::vector<int> processes_of;
  for (int device = 0; device < devices(); ++device) processes_of.push_back(device / devices_per_process);
  return processes_of;
}

std::vector<std::string> Layout::process_host() const {
  std::vector<std::string> hosts_of;
  for (int process = 0; process < processes && hosts > 1; ++process) {
    hosts_of.push_back("host" + std::to_string(process * hosts / processes));
  }
  return hosts_of;
}

Arena* test_arena() {
  static Arena arena(std::size_t{4} << 30);
  return &arena;
}

std::unique_ptr<World> local_world(int devices) {
  return World::create({.device_process = Layout{1, devices}.device_process(), .arena = test_arena()});
}

std::filesystem::path shared_folder() { return std::filesystem::current_path().parent_path(); }

WorldOptions child_options(coordination::KeyValueStore& store, int devices_per_process, int hosts) {
  if (const char* given = std::getenv(kHostsVariable)) hosts = std::atoi(given);
  const Layout layout{testing::child_count(), devices_per_process, hosts};
  const char* const given = std::getenv(kNetworkVariable);
  const std::string network = given != nullptr ? given : "tcp";
  const std::size_t colon = network.find(':');
  const bool encrypt = network.starts_with("tls");
  return {.process_index = testing::child_index(),
          .process_count = testing::child_count(),
          .device_process = layout.device_process(),
          .process_host = layout.process_host(),
          .network = encrypt ? "tcp" : network.substr(0, colon),
          .data_connections = colon == network.npos ? 1 : std::stoi(network.substr(colon + 1)),
          .interface = hosts > 1 ? "lo" : "",
          .store = &store,
          .job_id = "test",
          .job_secret = encrypt ? "a secret of the tests" : "",
          .tls = encrypt ? coordination::TlsFiles::from(Environment::process()) : coordination::TlsFiles{},
          .encrypt = encrypt,
          .arena = test_arena()};
}

ChildWorld::ChildWorld(int devices_per_process, const std::function<void(int)>& before, int hosts)
    : store_(shared_folder()) {
  if (before) before(testing::child_index());
  world_ = World::create(child_options(store_, devices_per_process, hosts));
}

void for_each_local_device(World& world, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  const WorldOptions& options = world.options();
  for (int device = 0; device < static_cast<int>(options.device_process.size()); ++device) {
    if (options.device_process[device] == options.process_index)
      threads.emplace_back([&body, device] { body(device); });
  }
}

Call sum_call(int count, int members, const std::string& program, std::int64_t index, int line) {
  Collective sum;
  sum.kind = Kind::kAllReduce;
  sum.count = count;
  sum.description = "psum f32[" + std::to_string(count) + "] over i";
  sum.site = {"train.cc", static_cast<std::uint32_t>(line), "main"};
  return make_call(sum, members, fingerprint(program), program, index);
}

}  // namespace lockstep::collectives
