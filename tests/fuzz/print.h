// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/fuzz/ir.h"
#include "tests/fuzz/run.h"

namespace lockstep::fuzz {

/// The program as C++ that compiles against lockstep/lockstep.h: run in one process with 8 CPU devices it
/// prints the values and derivatives. `expected`, where it is given, is written beside them as a comment.
std::string print_cpp(const Program& program, const std::vector<Numbers>& expected = {});

/// The program as Python, to be executed with JAX and `tests/fuzz/prelude.py`: it defines `run()`, which
/// gives the same outputs, as a list.
std::string print_jax(const Program& program);

/// A pattern of the table filled in: $0 an operand, $* all, $1+ those from the second, #0 an int, #?0 one as
/// a bool, #1+ those from the second, #n0 a number, #a #b #c so many ints as the first operand has
/// dimensions, the first, second and third time, #z pairs of the first and the second of these, #S the
/// result's shape, #D its dtype, #T the text. Lists are separated by commas.
std::string fill(std::string_view pattern, const Program& program, const Node& node, bool jax);

/// A number as C++ and Python read it, with a point.
std::string number(double value);

std::string value_name(Value v);

/// The text, indented by so many spaces.
std::string indented(const std::string& text, int spaces);

}  // namespace lockstep::fuzz
