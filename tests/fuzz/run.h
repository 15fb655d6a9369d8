// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/fuzz/ir.h"

namespace lockstep::fuzz {

/// An array read to the host: its elements, wide enough for every dtype; of complex ones the real and the
/// imaginary part in turn.
struct Numbers {
  Type type;
  std::vector<long double> elements;
};

enum class Mode {
  kEager,  ///< on one device, operation by operation
  kOne,    ///< on one device, jitted
  kMany    ///< over all devices of the job, jitted
};
std::string to_string(Mode mode);

/// The results of a program: its values; the cotangents of its inexact inputs, for cotangents of the values
/// that are in the program; and second derivatives with respect to the floating ones.
struct Outcome {
  std::vector<Numbers> outputs;
  std::string error;  ///< what it threw, if it did
};
Outcome run(const Program& program, Mode mode);

/// In a job of several processes: what is wrong with the parts that this process has, or nothing.
std::string compare_parts(const Program& program, const std::vector<Numbers>& expected);

/// The difference, or nothing. Whole numbers are compared exactly, others as far as the least precise dtype
/// in the program allows; `slack` is a factor of that.
std::string compare(const Program& program, const std::vector<Numbers>& actual,
                    const std::vector<Numbers>& expected, double slack = 1);

/// The comparisons that examine() is to make.
struct ExamineOptions {
  bool many = true;   ///< compare what 8 devices give with what one does
  bool eager = true;  ///< and what is not jitted
};

/// The failure of the program in one process, or nothing: "eager: ...", "jit on one device: ...", "jit over 8
/// devices: ...". Where floating results differ a little, it is run in a wider dtype to tell rounding from a
/// fault. `outputs`, where given, are set to what one device gives.
std::string examine(const Program& program, const ExamineOptions& options = {},
                    std::vector<Numbers>* outputs = nullptr);

/// The same program with wider floating dtypes, in which rounding is smaller.
Program widened(Program program);

/// How far results of the program may be from each other, as a part of the largest element: what the least
/// precise dtype in it allows.
double tolerance(const Program& program);

/// The names of the outputs, for messages: "value 0", "cotangent of v2", ....
std::vector<std::string> output_names(const Program& program);

/// The cotangent of the i-th of the inexact values, and the direction of the i-th floating input in second
/// derivatives, row-major; of complex ones the parts in turn.
std::vector<double> cotangent(const Type& type, std::size_t i);
std::vector<double> direction(const Type& type, std::size_t i);

/// The inputs, by their places, with respect to which derivatives are taken: inexact ones, and floating ones.
std::vector<std::size_t> differentiated(const Program& program, bool floating_only);

}  // namespace lockstep::fuzz
