// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "lockstep/array/array.h"

namespace lockstep::golden {

using Json = nlohmann::json;

/// golden.json.
const Json& file();

/// An array of golden.json; of complex numbers the values are the parts in turn.
struct Stored {
  DType dtype;
  Shape shape;
  std::vector<double> values;

  explicit Stored(const Json& json);
  Stored(DType dtype, Shape shape, std::vector<double> values);

  Array array() const;
};

/// The elements of x, as Stored has them.
std::vector<double> doubles(const Array& x);

/// How near two numbers are to be. Integers and bools must be equal whatever it says.
struct Tolerance {
  double rtol = 0, atol = 0;
  double ulp = 0;  ///< units in the last place, instead of the others where they are 0

  explicit Tolerance(const Json& entry);
  Tolerance(double rtol, double atol) : rtol(rtol), atol(atol) {}
};

/// Each element of x as expected, NaN where it is NaN.
void expect_stored(const Array& x, const Stored& expected, const Tolerance& tolerance);

/// "float32" and so on.
DType dtype_of_numpys(const std::string& name);

}  // namespace lockstep::golden
