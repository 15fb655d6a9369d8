// SPDX-License-Identifier: Apache-2.0
#pragma once

// Examples of primitives that contain programs, for tests that iterate over them.

#include <memory>

#include "lockstep/program/test_examples.h"
#include "lockstep/transforms/control_flow.h"

namespace lockstep::test {

inline ProgramPtr nested(const std::vector<Aval>& avals, const Function& function,
                         const char* name = "body") {
  return std::make_shared<const Program>(trace(avals, function, name));
}

/// c, y = tanh(w c + x), w c sin(x)
inline ProgramPtr recurrence(const std::vector<std::string>& varying = {}) {
  const Aval vector{DType::kF64, {3}, false, varying}, matrix{DType::kF64, {3, 3}, false, varying};
  return nested({matrix, vector, vector}, [](std::span<const Value> v) {
    const Value moved = lax::dot_general(v[0], v[1], {{1}, {0}, {}, {}});
    return std::vector<Value>{lax::tanh(lax::add(moved, v[2])), lax::mul(moved, lax::sin(v[2]))};
  });
}

inline std::vector<Example> nested_examples() {
  const Aval scalar_f64{DType::kF64, {}}, vector{DType::kF64, {3}}, counter{DType::kI32, {}};
  const HostArray w = random({3, 3}, -1, 1, 21), c = random({3}, -1, 1, 22), xs = random({5, 3}, -1, 1, 23);
  std::vector<Example> all;
  auto scan = [&](ProgramPtr body, int consts, int carry, std::int64_t length, bool reverse,
                  std::vector<HostArray> inputs) {
    all.push_back({.primitive = &scan_p(),
                   .params = OpParams::of(ScanParams{std::move(body), consts, carry, length, reverse}),
                   .inputs = std::move(inputs)});
  };
  scan(recurrence(), 1, 1, 5, false, {w, c, xs});
  scan(recurrence(), 1, 1, 5, true, {w, c, xs});
  // A counter, a carry that is a function of it, and one that is only passed on.
  scan(nested({vector, counter, vector, vector},
              [&](std::span<const Value> v) {
                const Value place = lax::convert_element_type(v[1], DType::kF64);
                const Value scale = lax::broadcast_in_dim(lax::sin(place), {3}, {});
                return std::vector<Value>{lax::add(v[1], lax::full_like(v[1], 1)),
                                          lax::mul(lax::cos(v[2]), lax::add(v[0], scale)), v[3],
                                          lax::mul(v[2], v[3]), lax::mul(v[1], v[1])};
              }),
       1, 3, 4, false, {c, scalar(0, DType::kI32), random({3}, -1, 1, 24), random({3}, -1, 1, 25)});
  // A scan within a scan.
  const ProgramPtr inner = recurrence();
  scan(nested({Aval{DType::kF64, {3, 3}}, vector, Aval{DType::kF64, {2, 3}}},
              [&](std::span<const Value> v) {
                std::vector<Value> out =
                    emit_nested(v[0].builder(), scan_p(), OpParams::of(ScanParams{inner, 1, 1, 2, false}), v);
                return std::vector<Value>{out[0], lax::reduce_sum(out[1], {0})};
              }),
       1, 1, 3, true, {w, c, random({3, 2, 3}, -1, 1, 26)});

  const ProgramPtr grows = nested({vector, vector},
                                  [](std::span<const Value> v) {
                                    return std::vector<Value>{lax::mul(lax::exp(v[0]), v[1]), v[1]};
                                  }),
                   turns = nested(
                       {vector, vector},
                       [](std::span<const Value> v) {
                         return std::vector<Value>{lax::sin(v[0]), lax::mul(v[0], lax::mul(v[0], v[1]))};
                       }),
                   drops = nested({vector, vector}, [](std::span<const Value> v) {
                     return std::vector<Value>{lax::full_like(v[0], 2), lax::tanh(v[1])};
                   });
  for (int branch = 0; branch < 3; ++branch) {
    all.push_back({.primitive = &cond_p(),
                   .params = OpParams::of(CondParams{{grows, turns, drops}}),
                   .inputs = {scalar(branch, DType::kI32), c, random({3}, -1, 1, 27)}});
  }
  // A branch within a scan.
  scan(nested({vector, vector, counter},
              [&](std::span<const Value> v) {
                const Value operands[] = {v[2], v[0], v[1]};
                return emit_nested(v[0].builder(), cond_p(), OpParams::of(CondParams{{grows, turns, drops}}),
                                   operands);
              }),
       0, 2, 1, false, {c, random({3}, -1, 1, 28), {DType::kI32, {1}, {1}}});
  all.push_back({.primitive = &remat_p(),
                 .params = OpParams::of(RematParams{recurrence(), false}),
                 .inputs = {w, c, random({3}, -1, 1, 29)}});
  all.push_back({.primitive = &remat_p(),
                 .params = OpParams::of(RematParams{
                     nested({vector, Aval{DType::kF64, {3, 3}}, Aval{DType::kF64, {5, 3}}},
                            [&](std::span<const Value> v) {
                              const Value operands[] = {v[1], v[0], v[2]};
                              return emit_nested(v[0].builder(), scan_p(),
                                                 OpParams::of(ScanParams{inner, 1, 1, 5, false}), operands);
                            }),
                     true}),
                 .inputs = {c, w, xs}});
  // Halved until the sum is small.
  all.push_back({.primitive = &while_p(),
                 .params = OpParams::of(
                     WhileParams{nested(
                                     {scalar_f64, vector, counter},
                                     [](std::span<const Value> v) {
                                       return std::vector<Value>{
                                           lax::gt(lax::reduce_sum(lax::mul(v[1], v[1]), {0}), v[0])};
                                     },
                                     "condition"),
                                 nested({vector, vector, counter},
                                        [](std::span<const Value> v) {
                                          return std::vector<Value>{lax::mul(v[0], lax::sin(v[1])),
                                                                    lax::add(v[2], lax::full_like(v[2], 1))};
                                        }),
                                 1, 1}),
                 .inputs = {scalar(0.01), filled(0.5, {3}), random({3}, 0.5, 3, 30), scalar(0, DType::kI32)},
                 .has_derivative = false});
  // Its derivative rule returns three times the correct value, so that tests can see that it is used.
  const ProgramPtr square = nested({vector, vector}, [](std::span<const Value> v) {
    return std::vector{lax::mul(v[0], lax::mul(v[1], v[1]))};
  });
  all.push_back({.primitive = &custom_jvp_p(),
                 .params = OpParams::of(CustomJvpParams{
                     square,
                     nested({vector, vector, vector},
                            [](std::span<const Value> v) {
                              return std::vector{
                                  lax::mul(v[0], lax::mul(v[1], v[1])),
                                  lax::mul(lax::mul(lax::full_like(v[1], 6), v[0]), lax::mul(v[1], v[2]))};
                            }),
                     1}),
                 .inputs = {c, random({3}, -1, 1, 31)},
                 .has_derivative = false});
  all.push_back(
      {.primitive = &custom_vjp_p(),
       .params = OpParams::of(CustomVjpParams{
           square,
           nested({vector, vector},
                  [](std::span<const Value> v) {
                    return std::vector{lax::mul(v[0], lax::mul(v[1], v[1])), lax::sin(v[1])};
                  }),
           nested({vector, vector, vector},
                  [](std::span<const Value> v) { return std::vector{lax::mul(v[0], lax::mul(v[1], v[2]))}; }),
           1}),
       .inputs = {c, random({3}, -1, 1, 32)},
       .has_derivative = false});
  return all;
}

}  // namespace lockstep::test
