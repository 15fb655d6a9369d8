// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/coordination/client/client.h"
#include "lockstep/testing/processes.h"

// Shared by the tests of the tool with real processes.

namespace lockstep::cli {

using Words = std::vector<std::string>;

Words operator+(Words left, const Words& right);

/// The tool with these arguments, as a process to start.
testing::ProcessesOptions tool(Words arguments, testing::Variables env = {});

/// Runs it to its end.
testing::ProcessResult lockstep(Words arguments, testing::Variables env = {});

/// "--" and a shell that runs the script.
Words shell(const std::string& script);

/// A script that prints "pid N" and stays.
inline constexpr char kSaysItsPid[] = "echo pid $$; exec sleep 1000";

std::vector<std::string> lines_of(const std::string& text);

bool alive(pid_t pid);
void expect_gone(pid_t pid);

/// The number after the text in the log; -1 if the text does not occur.
pid_t number_after(const std::string& log, const std::string& text);

/// The processes with this in their environment, as "NAME=value".
std::vector<pid_t> processes_with(const std::string& variable);

/// Writes an executable file and returns its path.
std::string write_script(const std::filesystem::path& file, const std::string& content);

/// Why no Slurm of its own can be started here; empty if one can.
std::string lacking_for_slurm();

/// In a child: joins the job of the environment, as the runtime does.
std::unique_ptr<coordination::CoordinationClient> join();

/// In a child: waits for something that never happens; prints the error that ends the wait, and exits with
/// status 3.
[[noreturn]] void wait_in_vain(coordination::CoordinationClient& client);

}  // namespace lockstep::cli
