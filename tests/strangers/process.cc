// SPDX-License-Identifier: Apache-2.0
// One process of a job: joins its coordinator, writes and reads keys, meets the others and leaves.
//
// strangers_process COORDINATOR NUM_PROCESSES PROCESS_ID [--train]
//
// With --train, each process is on a host of its own, and they compute sums until process 0 gets SIGTERM. It
// prints how many, ten times a second.

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/communicator.h"
#include "lockstep/collectives/world.h"
#include "lockstep/coordination/client/client.h"

namespace {

using namespace lockstep;
using std::chrono::steady_clock;

volatile std::sig_atomic_t stopped = 0;

void train(coordination::KeyValueStore& store, const coordination::ClientOptions& options) {
  collectives::WorldOptions job;
  job.process_index = options.process_id;
  job.process_count = options.num_processes;
  std::vector<int> devices;
  for (int process = 0; process < options.num_processes; ++process) {
    devices.push_back(process);
    job.process_host.push_back("host " + std::to_string(process));
  }
  job.device_process = devices;
  job.network = "tcp";
  job.interface = "lo";
  job.store = &store;
  job.job_secret = options.identity.secret;
  const auto world = collectives::World::create(job);
  collectives::Communicator& all = world->communicator(devices);
  collectives::Collective sum;
  sum.kind = collectives::Kind::kAllReduce;
  sum.count = 1 << 14;
  const collectives::Call call = collectives::make_call(sum, options.num_processes);
  std::vector<float> values(1 << 14);
  auto shown = steady_clock::now();
  // The first element says whether process 0 wants to stop.
  for (long steps = 0; values[0] == 0; ++steps) {
    for (std::size_t i = 1; i < values.size(); ++i) values[i] = 1;
    values[0] = options.process_id == 0 && stopped != 0 ? 1 : 0;
    all.run(call, options.process_id, values.data(), values.data());
    for (std::size_t i = 1; i < values.size(); ++i) {
      if (values[i] != static_cast<float>(options.num_processes))
        fail("the sum of {} ones is {}", options.num_processes, values[i]);
    }
    if (options.process_id == 0 && steady_clock::now() - shown > std::chrono::milliseconds(100)) {
      std::printf("%ld\n", steps);
      std::fflush(stdout);
      shown = steady_clock::now();
    }
  }
  world->leave();
}

}  // namespace

int main(int count, char** arguments) {
  constexpr std::chrono::seconds kLong(60);
  coordination::ClientOptions options;
  options.address = arguments[1];
  options.num_processes = std::atoi(arguments[2]);
  options.process_id = std::atoi(arguments[3]);
  options.identity.secret = std::getenv("LOCKSTEP_JOB_SECRET");
  options.initialization_timeout = kLong;
  if (count > 4) std::signal(SIGTERM, [](int) { stopped = 1; });
  try {
    auto client = coordination::make_grpc_client(options);
    client->connect();
    auto& store = client->key_value_store();
    store.set("k/" + std::to_string(options.process_id), "value");
    client->barrier("written", kLong);
    for (int other = 0; other < options.num_processes; ++other)
      store.get("k/" + std::to_string(other), kLong);
    if (count > 4) train(store, options);
    client->shutdown();
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
