// SPDX-License-Identifier: Apache-2.0
// The program of stops.py and limits.py, as a child of faults_test.

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "lockstep/testing/child.h"

namespace lockstep {
namespace {

constexpr int kSteps = 4;

std::string moment;

void wait_for_file(const std::string& name) {
  while (!std::filesystem::exists(name)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

/// At the moment that the first argument names, writes the file `at` and waits for the file `told`.
void hold_at(const std::string& name, int process) {
  if (name != moment || process_index() != process) return;
  std::ofstream("at").put('.');
  wait_for_file("told");
}

int signal_named(const std::string& name) {
  return name == "INT" ? SIGINT : name == "HUP" ? SIGHUP : SIGTERM;
}

/// Takes a moment to compile.
Array many_operations(Array x) {
  for (int i = 0; i < 150; ++i) x = sin(x) + static_cast<float>(i) * cos(x);
  return x;
}

/// Arguments: a moment, and the signal that tells it to stop. Each process writes a file saved-PROCESS.
LOCKSTEP_CHILD(saves_when_told_to_stop) {
  moment = testing::child_arguments().at(0);
  watch_for_preemption(signal_named(testing::child_arguments().at(1)));
  const std::string id = std::getenv("LOCKSTEP_PROCESS_ID");
  std::ofstream("watches-" + id).put('.');
  if (id == "1" && moment == "initialize") {
    wait_for_file("watches-0");
    std::ofstream("at").put('.');
    wait_for_file("told");
  }
  initialize();
  if (moment == "compile" && process_index() == 0) std::ofstream("at").put('.');
  jit(many_operations)(ones({8})).to_host<float>();
  auto sum = pmap([](Array x) { return psum(x, "i"); });
  for (int step = 0; step < kSteps; ++step) {
    if (step == 1) hold_at("collective", 1);
    EXPECT_EQ(sum(ones({local_device_count(), 4})).to_host<float>().front(), 2);
    if (step == 2) {
      std::ofstream file("step-" + id);
      file << "begun";
      hold_at("save", 0);
      file << "complete";
    }
    if (step == kSteps - 1) hold_at("last step", 0);
    if (preemption_point(step)) break;
  }
  std::ofstream("saved-" + id).put('.');
  hold_at("shutdown", 1);
  shutdown();
}

}  // namespace
}  // namespace lockstep
