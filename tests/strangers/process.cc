// SPDX-License-Identifier: Apache-2.0
// One process of a job: joins its coordinator, writes and reads keys, meets the others and leaves.
//
// strangers_process COORDINATOR NUM_PROCESSES PROCESS_ID

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "lockstep/coordination/client.h"

int main(int, char** arguments) {
  using namespace lockstep::coordination;
  constexpr std::chrono::seconds kLong(60);
  ClientOptions options;
  options.address = arguments[1];
  options.num_processes = std::atoi(arguments[2]);
  options.process_id = std::atoi(arguments[3]);
  options.identity.secret = std::getenv("LOCKSTEP_JOB_SECRET");
  options.initialization_timeout = kLong;
  try {
    auto client = make_grpc_client(options);
    client->connect();
    client->key_value_store().set("k/" + std::to_string(options.process_id), "value");
    client->barrier("written", kLong);
    for (int other = 0; other < options.num_processes; ++other)
      client->key_value_store().get("k/" + std::to_string(other), kLong);
    client->shutdown();
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
