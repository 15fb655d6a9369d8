// SPDX-License-Identifier: Apache-2.0
#pragma once

// Examples of primitives that contain programs, for tests that iterate over them.

#include <memory>

#include "lockstep/program/test_examples.h"
#include "lockstep/transforms/nested_primitives.h"

namespace lockstep::test {

inline transforms::ProgramPtr nested(const std::vector<Aval>& avals, const Function& function,
                                     const char* name = "body") {
  return std::make_shared<const ir::Program>(trace(avals, function, name));
}

/// The results of five steps from x, in a loop.
inline std::vector<ir::Value> five_steps(const ir::Value& x,
                                         const std::function<ir::Value(const ir::Value&)>& step) {
  const auto body = nested({x.aval()}, [&](std::span<const ir::Value> v) { return std::vector{step(v[0])}; });
  return transforms::emit_nested(x.builder(), transforms::scan_p(),
                                 ir::OpParams::of(transforms::ScanParams{body, 0, 1, 5, false}),
                                 std::vector{x});
}

/// c, y = tanh(w c + x), w c sin(x)
inline transforms::ProgramPtr recurrence(const std::vector<std::string>& varying = {}) {
  const Aval vector{DType::kF64, {3}, false, varying}, matrix{DType::kF64, {3, 3}, false, varying};
  return nested({matrix, vector, vector}, [](std::span<const ir::Value> v) {
    const ir::Value moved = ir::lax::dot_general(v[0], v[1], {{1}, {0}, {}, {}});
    return std::vector<ir::Value>{ir::lax::tanh(ir::lax::add(moved, v[2])),
                                  ir::lax::mul(moved, ir::lax::sin(v[2]))};
  });
}

inline std::vector<Example> nested_examples() {
  const Aval scalar_f64{DType::kF64, {}}, vector{DType::kF64, {3}}, counter{DType::kI32, {}};
  const HostArray w = random({3, 3}, -1, 1, 21), c = random({3}, -1, 1, 22), xs = random({5, 3}, -1, 1, 23);
  std::vector<Example> all;
  auto scan = [&](transforms::ProgramPtr body, int consts, int carry, std::int64_t length, bool reverse,
                  std::vector<HostArray> inputs) {
    all.push_back(
        {.primitive = &transforms::scan_p(),
         .params = ir::OpParams::of(transforms::ScanParams{std::move(body), consts, carry, length, reverse}),
         .inputs = std::move(inputs)});
  };
  scan(recurrence(), 1, 1, 5, false, {w, c, xs});
  scan(recurrence(), 1, 1, 5, true, {w, c, xs});
  // A counter, a carry that is a function of it, and one that is only passed on.
  scan(nested({vector, counter, vector, vector},
              [&](std::span<const ir::Value> v) {
                const ir::Value place = ir::lax::convert_element_type(v[1], DType::kF64);
                const ir::Value scale = ir::lax::broadcast_in_dim(ir::lax::sin(place), {3}, {});
                return std::vector<ir::Value>{ir::lax::add(v[1], ir::lax::full_like(v[1], 1)),
                                              ir::lax::mul(ir::lax::cos(v[2]), ir::lax::add(v[0], scale)),
                                              v[3], ir::lax::mul(v[2], v[3]), ir::lax::mul(v[1], v[1])};
              }),
       1, 3, 4, false, {c, scalar(0, DType::kI32), random({3}, -1, 1, 24), random({3}, -1, 1, 25)});
  // A scan within a scan.
  const transforms::ProgramPtr inner = recurrence();
  scan(nested({Aval{DType::kF64, {3, 3}}, vector, Aval{DType::kF64, {2, 3}}},
              [&](std::span<const ir::Value> v) {
                std::vector<ir::Value> out = transforms::emit_nested(
                    v[0].builder(), transforms::scan_p(),
                    ir::OpParams::of(transforms::ScanParams{inner, 1, 1, 2, false}), v);
                return std::vector<ir::Value>{out[0], ir::lax::reduce_sum(out[1], {0})};
              }),
       1, 1, 3, true, {w, c, random({3, 2, 3}, -1, 1, 26)});

  const transforms::ProgramPtr
      grows = nested({vector, vector},
                     [](std::span<const ir::Value> v) {
                       return std::vector<ir::Value>{ir::lax::mul(ir::lax::exp(v[0]), v[1]), v[1]};
                     }),
      turns = nested(
          {vector, vector},
          [](std::span<const ir::Value> v) {
            return std::vector<ir::Value>{ir::lax::sin(v[0]), ir::lax::mul(v[0], ir::lax::mul(v[0], v[1]))};
          }),
      drops = nested({vector, vector}, [](std::span<const ir::Value> v) {
        return std::vector<ir::Value>{ir::lax::full_like(v[0], 2), ir::lax::tanh(v[1])};
      });
  for (int branch = 0; branch < 3; ++branch) {
    all.push_back({.primitive = &transforms::cond_p(),
                   .params = ir::OpParams::of(transforms::CondParams{{grows, turns, drops}}),
                   .inputs = {scalar(branch, DType::kI32), c, random({3}, -1, 1, 27)}});
  }
  // A branch within a scan.
  scan(nested({vector, vector, counter},
              [&](std::span<const ir::Value> v) {
                const ir::Value operands[] = {v[2], v[0], v[1]};
                return transforms::emit_nested(
                    v[0].builder(), transforms::cond_p(),
                    ir::OpParams::of(transforms::CondParams{{grows, turns, drops}}), operands);
              }),
       0, 2, 1, false, {c, random({3}, -1, 1, 28), {DType::kI32, {1}, {1}}});
  all.push_back({.primitive = &transforms::remat_p(),
                 .params = ir::OpParams::of(transforms::RematParams{recurrence(), false}),
                 .inputs = {w, c, random({3}, -1, 1, 29)}});
  all.push_back({.primitive = &transforms::remat_p(),
                 .params = ir::OpParams::of(transforms::RematParams{
                     nested({vector, Aval{DType::kF64, {3, 3}}, Aval{DType::kF64, {5, 3}}},
                            [&](std::span<const ir::Value> v) {
                              const ir::Value operands[] = {v[1], v[0], v[2]};
                              return transforms::emit_nested(
                                  v[0].builder(), transforms::scan_p(),
                                  ir::OpParams::of(transforms::ScanParams{inner, 1, 1, 5, false}), operands);
                            }),
                     true}),
                 .inputs = {c, w, xs}});
  // Halved until the sum is small.
  all.push_back({.primitive = &transforms::while_p(),
                 .params = ir::OpParams::of(transforms::WhileParams{
                     nested(
                         {scalar_f64, vector, counter},
                         [](std::span<const ir::Value> v) {
                           return std::vector<ir::Value>{
                               ir::lax::gt(ir::lax::reduce_sum(ir::lax::mul(v[1], v[1]), {0}), v[0])};
                         },
                         "condition"),
                     nested({vector, vector, counter},
                            [](std::span<const ir::Value> v) {
                              return std::vector<ir::Value>{ir::lax::mul(v[0], ir::lax::sin(v[1])),
                                                            ir::lax::add(v[2], ir::lax::full_like(v[2], 1))};
                            }),
                     1, 1}),
                 .inputs = {scalar(0.01), filled(0.5, {3}), random({3}, 0.5, 3, 30), scalar(0, DType::kI32)},
                 .has_derivative = false});
  // Its derivative rule returns three times the correct value, so that tests can see that it is used.
  const transforms::ProgramPtr square = nested({vector, vector}, [](std::span<const ir::Value> v) {
    return std::vector{ir::lax::mul(v[0], ir::lax::mul(v[1], v[1]))};
  });
  all.push_back({.primitive = &transforms::custom_jvp_p(),
                 .params = ir::OpParams::of(transforms::CustomJvpParams{
                     square,
                     nested({vector, vector, vector},
                            [](std::span<const ir::Value> v) {
                              return std::vector{ir::lax::mul(v[0], ir::lax::mul(v[1], v[1])),
                                                 ir::lax::mul(ir::lax::mul(ir::lax::full_like(v[1], 6), v[0]),
                                                              ir::lax::mul(v[1], v[2]))};
                            }),
                     1}),
                 .inputs = {c, random({3}, -1, 1, 31)},
                 .has_derivative = false});
  all.push_back(
      {.primitive = &transforms::custom_vjp_p(),
       .params = ir::OpParams::of(transforms::CustomVjpParams{
           square,
           nested({vector, vector},
                  [](std::span<const ir::Value> v) {
                    return std::vector{ir::lax::mul(v[0], ir::lax::mul(v[1], v[1])), ir::lax::sin(v[1])};
                  }),
           nested({vector, vector, vector},
                  [](std::span<const ir::Value> v) {
                    return std::vector{ir::lax::mul(v[0], ir::lax::mul(v[1], v[2]))};
                  }),
           1}),
       .inputs = {c, random({3}, -1, 1, 32)},
       .has_derivative = false});
  const Shape query = {2, 4, 4, 3}, key = {2, 4, 2, 3};
  std::vector<HostArray> attended = {
      random(query, -1, 1, 33), random(key, -1, 1, 34), random(key, -1, 1, 35), {DType::kI32, {2}, {4, 3}}};
  for (const bool backward : {false, true}) {
    if (backward)
      attended.insert(attended.end(),
                      {random(query, -1, 1, 36), random({2, 2, 4, 2}, 1, 2, 37), random(query, -1, 1, 38)});
    all.push_back(
        {.primitive = &transforms::attention_p(),
         .params = ir::OpParams::of(transforms::attention_of(
             avals_of(attended), {.scale = 0.7, .block = backward ? 4 : 3, .left = 2, .right = 0}, backward)),
         .inputs = attended});
  }
  return all;
}

}  // namespace lockstep::test
