// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "lockstep/array/array.h"
#include "tests/fuzz/ir.h"

/// The operations without bodies, a line each: what Lockstep and JAX call them, what they take, and how the
/// generator may use them.
namespace lockstep::fuzz {

using Arrays = std::vector<Array>;

/// Which of the generator's rules makes such a node: its operands, its attributes and the result's shape.
enum class Family : std::uint8_t {
  kUnary,       ///< element by element
  kBinary,      ///< element by element, with broadcasting
  kReduce,      ///< ints: keepdims, then the axes
  kCumulative,  ///< ints: axis, reverse
  kAxis,        ///< as kUnary, with an axis; ints: axis
  kFourier,     ///< ints: axis
  kOther        ///< by name
};

/// Dtypes, as a mask.
enum : unsigned { kB = 1, kI = 2, kU = 4, kF = 8, kC = 16 };

/// The dtype of the result.
enum class Gives : std::uint8_t { kSame, kBool, kReal, kComplex, kSum, kPlace, kByte };

/// The condition on an operand of kUnary (and both of kBinary). Where a value does not meet it, the generator
/// puts other operations before it.
enum class Needs : std::uint8_t {
  kAny,
  kPositive,  ///< at least 1/2
  kAboveOne,
  kUnit,    ///< within ±3/4
  kDivisor  ///< the second operand: not 0; a whole one from 1 to 4
};

/// The effect on numbers that are whole multiples of a power of two, with so few bits that every order of
/// computing gives the same.
enum class Exact : std::uint8_t { kNo, kKeep, kWhole, kSquare };

struct Operation {
  std::string_view name;
  std::string_view cpp, jax;  ///< patterns; see print.cc
  Family family = Family::kOther;
  unsigned dtypes = 0;
  Gives gives = Gives::kSame;

  /// Whether value and derivatives have no jumps and kinks; others take exact operands only.
  bool smooth = true;
  Exact exact = Exact::kNo;
  Needs needs = Needs::kAny;
  double reach = 0;             ///< the operand is at most so large; 0: any size
  double gain = 0, offset = 0;  ///< the result is at most gain * operand + offset
  Array (*run)(const Arrays& operands, const Node& node, const Type& result) = nullptr;
};

std::span<const Operation> operations();

/// Throws std::logic_error where there is none.
const Operation& operation(std::string_view name);
bool is_operation(std::string_view name);

unsigned dtype_class(DType dtype);

}  // namespace lockstep::fuzz
