// SPDX-License-Identifier: Apache-2.0
// One process of a job whose coordinator is JAX's own service: uses all that Lockstep's client offers.
//
// lockstep_process COORDINATOR NUM_PROCESSES PROCESS_ID

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/coordination/client/client.h"
#include "lockstep/coordination/client/serves_already.h"

using namespace lockstep;
using namespace lockstep::coordination;

namespace {

constexpr std::chrono::seconds kLong(60);

void expect(bool good, const char* what) {
  if (good) return;
  std::printf("not so: %s\n", what);
  std::exit(1);
}

template <class E, class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  expect(false, "an error is thrown");
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void use(CoordinationClient& client, int num_processes, int process) {
  KeyValueStore& store = client.key_value_store();
  const std::string self = std::to_string(process);
  const std::string bytes("\0\xff/", 3);
  store.set("k//" + self + "/", bytes + self);
  for (int other = 0; other < num_processes; ++other) {
    expect(store.get("k/" + std::to_string(other), kLong) == bytes + std::to_string(other),
           "each other's keys");
  }
  client.barrier("keys", kLong);
  expect(store.get_directory("k").size() == static_cast<std::size_t>(num_processes),
         "all keys of the directory");
  expect(!store.try_get("none"), "a key that is not there");
  expect(contains(error_of<Error>([&] { store.set("k/" + self, "again"); }), "ALREADY_EXISTS"),
         "a key set twice");
  store.set("k/" + self, "again", true);
  expect(store.try_get("k/" + self) == "again", "a key overwritten");
  store.increment("sum", process + 1);
  client.barrier("added", kLong);
  expect(store.increment("sum", 0) == num_processes * (num_processes + 1) / 2, "the sum of all");
  client.barrier("summed", kLong);
  if (process == 0) store.erase("k");
  client.barrier("erased", kLong);
  expect(store.get_directory("k").empty(), "erased keys");
  expect(contains(error_of<TimeoutError>([&] { store.get("never", std::chrono::milliseconds(300)); }),
                  "'never'"),
         "a key that nobody sets");
  for (int i = 0; i < 5; ++i) client.barrier("again", kLong);
  if (process < 2) client.barrier("of two", kLong, {0, 1});
  if (process == 0) {
    error_of<TimeoutError>([&] { client.barrier("late", std::chrono::milliseconds(300)); });
    store.set("it was late", "yes");
  } else {
    store.get("it was late", kLong);
    error_of<TimeoutError>([&] { client.barrier("late", kLong); });
  }
  client.barrier("all have heard", kLong);
  client.barrier("late", kLong);
  client.report_failure({lockstep::coordination::FailureKind::kDied,
                         {{num_processes - 1}},
                         "JAX's service has no ear for this"});
  client.barrier("nobody failed", kLong);
  expect(!client.error(), "no error");
}

}  // namespace

int main(int, char** arguments) {
  ClientOptions options;
  options.address = arguments[1];
  options.num_processes = std::atoi(arguments[2]);
  options.process_id = std::atoi(arguments[3]);
  options.identity = {"a job", 0, ""};
  options.on_error = [](const JobError& error) {
    std::printf("the job failed: %s\n", error.message.c_str());
  };
  try {
    expect(serves_already(options), "JAX's service is seen as one");
    ClientOptions with_secret = options;
    with_secret.identity.secret = "that JAX's service cannot prove to have";
    error_of<lockstep::InitializationError>([&] { serves_already(with_secret); });
    auto client = make_grpc_client(options);
    client->connect();
    use(*client, options.num_processes, options.process_id);
    client->shutdown();
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  std::printf("process %d of %d has left\n", options.process_id, options.num_processes);
}
