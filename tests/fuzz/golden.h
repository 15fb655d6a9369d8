// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/fuzz/run.h"

namespace lockstep::fuzz {

/// How many programs golden.json has: those of the first seeds.
inline constexpr int kGoldenPrograms = 500;

/// The difference between the program's results and JAX's (golden.json), or nothing. The text also says if
/// JAX was given another program.
std::string compare_with_jax(const Program& program, const std::vector<Numbers>& outputs);

/// The same with JAX run now, by this Python; for programs of no seed, to reduce one that differs.
std::string compare_with_running_jax(const std::string& python, const Program& program,
                                     const std::vector<Numbers>& outputs);

/// Writes the programs as Python, for golden.py.
void write_programs(const std::string& file);

}  // namespace lockstep::fuzz
