// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

namespace lockstep {

/// Options of XLA's compiler by their names, such as {"xla_cpu_multi_thread_eigen", false}; a value may also
/// be its text, "false".
using CompilerOptions = std::map<std::string, std::variant<bool, std::int64_t, double, std::string>>;

/// {xla_cpu_multi_thread_eigen = false, xla_dump_to = "/tmp/x"}; empty for none.
std::string to_string(const CompilerOptions& options);

}  // namespace lockstep
