// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::testing {

/// Defines the code of a child process of a test. It runs in a separate process, in this same executable:
///
///     LOCKSTEP_CHILD(says_hello) { std::puts("hello"); }
///     TEST(Hello, IsSaid) { EXPECT_EQ(run_processes({.child = "says_hello"})[0].exit_code, 0); }
///
/// The process exits with 0 when the body returns, with 1 if an EXPECT or ASSERT in it failed, and with 2 if
/// it threw, after printing the message; `std::exit` gives any other status. A name is used once in an
/// executable.
#define LOCKSTEP_CHILD(name)                                              \
  static void lockstep_child_##name();                                    \
  [[maybe_unused]] static const bool lockstep_child_registered_##name =   \
      ::lockstep::testing::register_child(#name, &lockstep_child_##name); \
  static void lockstep_child_##name()

/// In a child: which of the processes started together this is, from 0, and how many there are.
int child_index();
int child_count();

/// In a child: ProcessesOptions::arguments.
const std::vector<std::string>& child_arguments();

/// In a child: prints the line and flushes it, so that Processes::wait_for_line sees it.
void say(const std::string& line);

/// LOCKSTEP_CHILD calls this.
bool register_child(const char* name, void (*body)());

/// Runs the child that the environment names and sets `status` to its exit status; false if this process is
/// not a child. lockstep_testing_main calls it before GoogleTest sees the arguments; a test program with a
/// main of its own does the same.
bool run_as_child(int argc, char** argv, int* status);

}  // namespace lockstep::testing
