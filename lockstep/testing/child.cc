// SPDX-License-Identifier: Apache-2.0
#include "lockstep/testing/child.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>

#include "lockstep/testing/child_protocol.h"

namespace lockstep::testing {
namespace {

struct Self {
  int index = 0;
  int count = 1;
  std::vector<std::string> arguments;
};

Self& self() {
  static Self instance;
  return instance;
}

std::map<std::string, void (*)()>& children() {
  static std::map<std::string, void (*)()> instance;
  return instance;
}

std::string take_variable(const char* name) {
  const char* value = std::getenv(name);
  std::string taken = value == nullptr ? "" : value;
  unsetenv(name);
  return taken;
}

// From here on the child ends with its test, even when that is killed.
void die_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitOrphan);
}

int execute(char** arguments) {
  execv(arguments[0], arguments);
  std::fprintf(stderr, "cannot execute %s: %s\n", arguments[0], std::strerror(errno));
  return errno == ENOENT ? 127 : 126;
}

int run(void (*body)()) {
  try {
    body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the child threw: %s\n", error.what());
    return kExitThrew;
  } catch (...) {
    std::fprintf(stderr, "the child threw something that is not a std::exception\n");
    return kExitThrew;
  }
  return ::testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? kExitExpectationFailed : 0;
}

}  // namespace

int child_index() { return self().index; }
int child_count() { return self().count; }
const std::vector<std::string>& child_arguments() { return self().arguments; }

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

bool register_child(const char* name, void (*body)()) {
  if (!children().emplace(name, body).second) {
    std::fprintf(stderr, "LOCKSTEP_CHILD(%s) is defined twice in this executable\n", name);
    std::abort();
  }
  return true;
}

bool run_as_child(int argc, char** argv, int* status) {
  const std::string name = take_variable(kChildVariable);
  if (name.empty()) return false;
  if (const std::string parent = take_variable(kParentVariable); !parent.empty()) {
    self().index = std::atoi(take_variable(kIndexVariable).c_str());
    self().count = std::atoi(take_variable(kCountVariable).c_str());
    die_with(std::atoi(parent.c_str()));
  }
  if (name == kExecuteChild) {
    *status = execute(argv + 1);
    return true;
  }
  self().arguments.assign(argv + 1, argv + argc);
  const auto child = children().find(name);
  if (child == children().end()) {
    std::fprintf(stderr, "no LOCKSTEP_CHILD(%s) in this executable\n", name.c_str());
    *status = kExitNoSuchChild;
    return true;
  }
  *status = run(child->second);
  std::fflush(nullptr);
  return true;
}

}  // namespace lockstep::testing
