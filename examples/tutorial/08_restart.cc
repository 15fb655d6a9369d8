// SPDX-License-Identifier: Apache-2.0
// Step 8: checkpoints, and a process that dies. The launcher starts all processes again, and they continue
// from the newest checkpoint.
//
//   $ lockstep run -n 2 --max-restarts 1 -- build/release/examples/tutorial/08_restart
//   [0] begins at step 1
//   [0] step 1: sum 2
//   [0] step 2: sum 1
//   [0] step 3: sum 0.5
//   lockstep: process 1 (host ..., pid ...) died: signal 9 (SIGKILL); starting all again: restart 1 of 1
//   [0] begins at step 3
//   [0] step 3: sum 0.5
//   [0] step 4: sum 0.25

#include <lockstep/lockstep.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

namespace ls = lockstep;
using ls::Array, ls::P;

int main() {
  ls::initialize();
  const char* attempt = std::getenv("LOCKSTEP_ATTEMPT");  // lockstep run counts the restarts in it
  const bool first_attempt = attempt == nullptr || attempt == std::string("0");
  const bool speaker = ls::process_index() == 0;
  const auto folder = std::filesystem::temp_directory_path() / "lockstep_tutorial_restart";
  if (first_attempt && speaker) std::filesystem::remove_all(folder);
  ls::multihost::sync_global_devices("the folder is empty");

  ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});
  Array w = ls::device_put(ls::ones({4}), ls::NamedSharding(mesh, P("data")));
  auto step = ls::jit([](const Array& w) {
    Array next = 0.5 * w;
    return std::pair(next, ls::sum(next));
  });

  // Saves every second step and waits until it is written. By default a thread would write it later.
  ls::checkpoint::Checkpointer checkpoints(folder, {.every = 2, .asynchronous = false});
  std::int64_t done = 0;
  if (auto found = checkpoints.restore_latest(w)) std::tie(done, w) = *found;
  if (speaker) std::printf("begins at step %d\n", static_cast<int>(done) + 1);

  for (std::int64_t i = done + 1; i <= 4; ++i) {
    if (i == 4 && first_attempt && ls::process_index() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));  // process 0 has printed by then
      std::raise(SIGKILL);
    }
    auto [next, total] = step(w);
    w = next;
    if (speaker) std::printf("step %d: sum %g\n", static_cast<int>(i), total.item<float>());
    std::fflush(stdout);
    if (checkpoints.due(i)) checkpoints.save(i, w);
  }
  ls::multihost::sync_global_devices("all is done");
  if (speaker) std::filesystem::remove_all(folder);
}
