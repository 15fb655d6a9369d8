// SPDX-License-Identifier: Apache-2.0
// Functions with derivative rules of their own within all that holds programs, against JAX's numbers
// (custom_rules.py). What JAX refuses must be refused here, with an error that says why.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/custom_derivative.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/remat.h"
#include "lockstep/ops/ops.h"
#include "lockstep/testing/data_file.h"

namespace lockstep {
namespace {

using Function = std::function<Array(Array)>;
using Nesting = std::function<Function(Function)>;
using Transform = std::function<Array(Function, Array)>;
using Pair = std::pair<Array, Array>;

const std::vector<float> kPoints = {0.7f, -1.3f, 2.2f, -0.4f, 1.6f, 0.3f};

Array tangent() { return array({0.5f, -1.f, 2.f}); }
Array weights() { return array({1.f, -2.f, 0.5f}); }

Function with_jvp(const Function& function, const std::function<Pair(Array, Array)>& rule) {
  return custom_jvp(function, [rule](std::tuple<Array> x, std::tuple<Array> t) {
    return rule(std::get<0>(x), std::get<0>(t));
  });
}

Function with_vjp(const Function& function, const std::function<Pair(Array)>& forward,
                  const std::function<Array(Array, Array)>& backward) {
  return custom_vjp(function, forward, backward);
}

Function scanned(const std::function<Pair(Array, Array)>& step, Array first, bool ys, bool reverse = false) {
  return [=](Array x) {
    Pair out = scan(step, first, x, {.reverse = reverse});
    return ys ? out.second : out.first;
  };
}

/// `times` steps from x.
Array repeated(const Function& step, const Array& x, int times) {
  auto body = [&](Array c, std::tuple<>) { return std::pair(step(c), std::tuple<>()); };
  return scan(body, x, std::tuple<>(), {.length = times}).first;
}

Array folded(const std::function<Array(Array, Array)>& step, const Array& first, const Array& xs) {
  auto body = [&](Array c, Array w) { return std::pair(step(c, w), std::tuple<>()); };
  return scan(body, first, xs).first;
}

std::map<std::string, Function> primals() {
  return {{"round", [](Array x) { return round(x); }},
          {"sign", [](Array x) { return sign(x); }},
          {"floor", [](Array x) { return floor(x); }},
          {"cast", [](Array x) { return astype(astype(x, int32), float32); }}};
}

std::map<std::string, std::function<Function(Function)>> rules() {
  return {{"jvp",
           [](Function primal) {
             return with_jvp(primal, [=](Array x, Array t) { return Pair(primal(x), t * (1 + x * x)); });
           }},
          {"vjp", [](Function primal) {
             return with_vjp(
                 primal, [=](Array x) { return Pair(primal(x), x); },
                 [](Array x, Array g) { return g * (1 + x * x); });
           }}};
}

Array element(const Array& x, int i) { return reshape(slice(x, {i}, {i + 1}), {}); }

std::map<std::string, Nesting> nestings() {
  const Function sine = [](Array x) { return sin(x); }, cosine = [](Array x) { return cos(x); };
  std::map<std::string, Nesting> all;
  all["alone"] = [](Function q) { return [=](Array x) { return q(x) * x; }; };
  all["scan_over"] = [](Function q) {
    return scanned([=](Array h, Array w) { return Pair(h * (q(w) + 0.5), h * (q(w) + 0.5)); }, ones({}),
                   true);
  };
  all["scan_carry"] = [](Function q) {
    return [=](Array x) { return repeated([=](Array c) { return 0.5 * q(c) + sin(c); }, x, 3); };
  };
  all["scan_constant"] = [](Function q) {
    return [=](Array x) {
      return folded([=](Array c, Array w) { return c * w + q(x); }, ones({3}), array({0.5f, 2.f}));
    };
  };
  all["scan_reverse"] = [](Function q) {
    return scanned([=](Array h, Array w) { return Pair(h + q(w) * w, h + q(w) * w); }, zeros({}), true, true);
  };
  all["scan_in_scan"] = [](Function q) {
    return [=](Array x) {
      return repeated(
          [=](Array c) {
            return folded([=](Array c, Array w) { return 0.3 * q(c) + w; }, c, stack({x, cos(x)}));
          },
          x, 2);
    };
  };
  all["cond_in_scan"] = [=](Function q) {
    const Function scaled = [=](Array c) { return q(c) * 0.4; };
    return
        [=](Array x) { return folded([=](Array c, Array w) { return cond(w > 0, scaled, sine, c); }, x, x); };
  };
  all["remat_in_scan"] = [](Function q) {
    return [=](Array x) {
      return folded([=](Array c, Array w) { return remat(Function([=](Array c) { return q(c) * w; }))(c); },
                    x, array({0.6f, 0.9f}));
    };
  };
  all["fori_loop"] = [](Function q) {
    return [=](Array x) {
      return fori_loop(
          0, 3, [=](Array i, Array c) { return 0.4 * q(c) + i * c; }, x);
    };
  };
  all["while_loop"] = [](Function q) {
    return [=](Array x) {
      auto go_on = [](const Pair& s) { return s.first < 3; };
      auto step = [=](const Pair& s) { return Pair(s.first + 1, 0.4 * q(s.second) + x); };
      return while_loop(go_on, step, Pair(zeros({}, int32), x)).second;
    };
  };
  all["cond_true"] = [=](Function q) {
    const Function scaled = [=](Array x) { return q(x) * x; };
    return [=](Array x) { return cond(element(x, 2) < 9, scaled, sine, x); };
  };
  all["cond_false"] = [=](Function q) {
    const Function scaled = [=](Array x) { return q(x) * x; };
    return [=](Array x) { return cond(element(x, 2) > 9, sine, scaled, x); };
  };
  all["cond_by_value"] = [=](Function q) {
    return [=](Array x) { return cond(element(x, 0) > 0, q, cosine, x); };
  };
  all["switch"] = [=](Function q) {
    const std::vector<Function> branches = {sine, [=](Array x) { return q(x) * x; }, cosine};
    return [=](Array x) { return switch_(astype(abs(element(x, 1)), int32), branches, x); };
  };
  all["remat"] = [](Function q) {
    const Function inner = [=](Array x) { return sin(q(x)) * x; };
    return [=](Array x) { return remat(inner)(x); };
  };
  all["map"] = [](Function q) {
    const Function each = [=](Array v) { return q(v) * v; };
    return [=](Array x) { return map(each, x); };
  };
  all["vmap"] = [](Function q) {
    const Function each = [=](Array v) { return q(v) * v; };
    return [=](Array x) { return vmap(each)(x); };
  };
  all["jit"] = [](Function q) {
    const Function outer = [=](Array x) { return jit(q)(x) * x; };
    return [=](Array x) { return jit(outer)(x); };
  };
  all["custom_jvp"] = [](Function q) {
    return with_jvp([=](Array x) { return 2 * q(x); },
                    [=](Array x, Array t) { return Pair(2 * q(x), t * (q(x) + x)); });
  };
  all["custom_vjp"] = [](Function q) {
    return with_vjp([=](Array x) { return q(x) * x; }, [=](Array x) { return Pair(q(x) * x, x); },
                    [=](Array x, Array g) { return g * (q(x) + x); });
  };
  all["calls_itself"] = [](Function q) {
    auto self = std::make_shared<Function>();
    *self = with_jvp([=](Array x) { return q(x) + 3; },
                     [at = self.get()](Array x, Array t) { return Pair((*at)(x), t * (*at)(x)); });
    return [self](Array x) { return (*self)(x); };
  };
  return all;
}

Function loss(const Function& f) {
  return [f](Array x) { return sum(weights() * f(x)); };
}

std::map<std::string, Transform> transforms() {
  std::map<std::string, Transform> all;
  all["value"] = [](Function f, Array x) { return f(x); };
  all["jvp"] = [](Function f, Array x) { return jvp(f, std::tuple(x), std::tuple(tangent())).second; };
  all["linearize"] = [](Function f, Array x) { return linearize(f, x).second(std::tuple(tangent())); };
  all["jacfwd"] = [](Function f, Array x) { return jacfwd(f)(x); };
  all["vjp"] = [](Function f, Array x) { return std::get<0>(vjp(f, x).second(tangent())); };
  all["grad"] = [](Function f, Array x) { return grad(loss(f))(x); };
  all["jacrev"] = [](Function f, Array x) { return jacrev(f)(x); };
  all["hessian"] = [](Function f, Array x) { return hessian(loss(f))(x); };
  all["grad of grad"] = [](Function f, Array x) {
    return grad(Function([=](Array x) { return sum(weights() * grad(loss(f))(x)); }))(x);
  };
  return all;
}

const nlohmann::json& golden() {
  static const nlohmann::json all =
      nlohmann::json::parse(std::ifstream(testing::data_file(LOCKSTEP_CUSTOM_RULES_FILE)));
  return all;
}

void expect_near(const std::vector<float>& actual, const std::vector<float>& expected,
                 const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << what << ", element " << i;
  }
}

/// The message of the function's TraceError.
std::string refusal(const Function& function) {
  try {
    jit(function).lower(tangent());
  } catch (const TraceError& error) {
    return error.what();
  }
  return "no error";
}

/// One rule and one nesting: all primals and transformations.
class CustomRules : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(CustomRules, HaveJaxsNumbers) {
  const auto& [rule, nesting] = GetParam();
  for (const auto& [primal, function] : primals()) {
    const std::string name = rule + " " + primal + " " + nesting;
    ASSERT_TRUE(golden().contains(name)) << name;
    const Function f = nestings().at(nesting)(rules().at(rule)(function));
    std::vector<Function> of_points;
    std::vector<std::pair<std::string, std::vector<float>>> expected;
    for (const auto& [transform, apply] : transforms()) {
      const nlohmann::json& numbers = golden().at(name).at(transform);
      const Function each = [apply = apply, f](Array x) { return apply(f, x); };
      if (numbers == "refused") {
        EXPECT_THAT(
            refusal(each),
            ::testing::AnyOf(::testing::HasSubstr("[custom_vjp] the function has only a reverse derivative"),
                             ::testing::HasSubstr("[while_loop] has no reverse derivative")))
            << name << ", " << transform;
        continue;
      }
      const auto values = numbers.get<std::vector<float>>();
      of_points.push_back(vmap(each));
      expected.emplace_back("vmap of " + name + ", " + transform, values);
      if (primal != "round") continue;
      of_points.push_back([each](Array x) { return stack({each(index(x, 0)), each(index(x, 1))}); });
      expected.emplace_back(name + ", " + transform, values);
    }
    // All of them in one program: what takes time is to compile.
    auto all = [&](const Array& points) {
      std::vector<Array> results;
      for (const Function& each : of_points) results.push_back(each(points));
      return results;
    };
    const std::vector<Array> results = jit(all)(array(kPoints, {2, 3}));
    for (std::size_t k = 0; k < results.size(); ++k)
      expect_near(results[k].to_host<float>(), expected[k].second, expected[k].first);
  }
}

std::vector<std::string> nesting_names() {
  std::vector<std::string> names;
  for (const auto& [name, nesting] : nestings()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Within, CustomRules,
                         ::testing::Combine(::testing::Values("jvp", "vjp"),
                                            ::testing::ValuesIn(nesting_names())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace lockstep
