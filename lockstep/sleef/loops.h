// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

// Loops over arrays that call a function of SLEEF, for each width of vectors.
namespace lockstep::sleef {

/// A function of SLEEF; its type depends on the instructions.
using Function = void (*)();

/// result[i] = function(x[i]), or function(x[i], y[i]).
template <class T>
struct Loops {
  void (*of_one)(Function function, const T* x, T* result, std::size_t count);
  void (*of_two)(Function function, const T* x, const T* y, T* result, std::size_t count);
};

/// While it lives, subnormal numbers count on this thread; XLA's threads take them for 0.
class WithSubnormals {
 public:
  WithSubnormals();
  ~WithSubnormals();
  WithSubnormals(const WithSubnormals&) = delete;
  WithSubnormals& operator=(const WithSubnormals&) = delete;

 private:
  unsigned before_ = 0;
};

/// Vector instructions, as SLEEF names its functions for them: "avx512f" or "avx2".
struct Instructions {
  const char* name;
  int f32_lanes, f64_lanes;
  Loops<float> f32;
  Loops<double> f64;
};

/// Those that this processor has, the widest first.
std::vector<const Instructions*> usable_instructions();

}  // namespace lockstep::sleef
