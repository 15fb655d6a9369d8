// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "lockstep/testing/temporary_folder.h"

namespace lockstep::testing {

/// Keeps the folder of a group of processes until the current test has ended. `title` describes what was run.
void keep_until_test_ends(std::shared_ptr<TemporaryFolder> folder, std::string title);

/// From now on, prints the logs of all processes of each test that failed. Call once, before RUN_ALL_TESTS.
void print_process_logs_of_failed_tests();

/// The log of process `index` in the folder of its group.
std::filesystem::path log_file(const std::filesystem::path& group_folder, int index);

/// The working folder of process `index` in the folder of its group.
std::filesystem::path process_folder(const std::filesystem::path& group_folder, int index);

/// The content of the file; empty if it does not exist.
std::string read_file(const std::filesystem::path& file);

}  // namespace lockstep::testing
