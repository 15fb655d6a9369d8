// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "lockstep/array/disable_jit.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/rounds.h"
#include "tests/golden/edges.h"
#include "tests/golden/functions.h"

// Each function at the edges of each dtype against JAX's values and derivatives (edges.py), under jit, under
// vmap and operation by operation. edges_known.cc lists what differs; docs/operations.md
// has the numbers.
namespace lockstep::golden {
namespace {

class OneDevice : public ::testing::Environment {
  void SetUp() override { initialize({.num_cpu_devices = 1}); }
  void TearDown() override { shutdown(); }
};
const ::testing::Environment* const kOneDevice = ::testing::AddGlobalTestEnvironment(new OneDevice);

/// Tangents of rows are 1, 2, 3, … of each, as in edges.py.
Array direction(const Array& x) {
  if (x.ndim() != 2) return ones(x.shape(), x.dtype());
  const std::int64_t n = x.shape()[1];
  return broadcast_to(astype(remainder(arange(n), 4) + 1, x.dtype()), x.shape());
}

Arrays inexact(const Arrays& arrays) {
  Arrays kept;
  for (const Array& x : arrays)
    if (is_inexact(x.dtype())) kept.push_back(x);
  return kept;
}

Arrays ones_like_each(const Arrays& arrays) {
  Arrays all;
  for (const Array& x : arrays) all.push_back(ones(x.shape(), x.dtype()));
  return all;
}

/// The parts of a case that it has, and its errors by part.
struct Found {
  std::map<std::string, Arrays> parts;
  std::map<std::string, std::string> errors;
};

/// Values and derivatives, by each operand with the others as they are.
Found evaluate(const EdgeCase& c, const Arrays& operands) {
  Found found;
  auto attempt = [&](const std::string& part, const auto& compute) {
    if (!c.parts.contains(part)) return;
    try {
      compute(found.parts[part]);
    } catch (const std::exception& error) {
      found.errors[part] = error.what();
    }
  };
  attempt("v", [&](Arrays& out) { out = c.function(operands); });
  for (std::size_t i = 0; i < operands.size(); ++i) {
    auto along = [&](const Arrays& x) {
      Arrays all = operands;
      all[i] = x[0];
      return inexact(c.function(all));
    };
    const Arrays at = {operands[i]}, tangent = {direction(operands[i])};
    auto forwards = [&](const Arrays& x) { return jvp(along, std::tuple(x), std::tuple(tangent)).second; };
    auto backwards = [&](const Arrays& x) {
      auto [values, pull] = vjp(along, x);
      return std::get<0>(pull(ones_like_each(values)));
    };
    auto add = [](Arrays& out, const Arrays& more) { out.insert(out.end(), more.begin(), more.end()); };
    attempt("j", [&](Arrays& out) { add(out, forwards(at)); });
    attempt("r", [&](Arrays& out) { add(out, backwards(at)); });
    attempt("jj", [&](Arrays& out) { add(out, jvp(forwards, std::tuple(at), std::tuple(tangent)).second); });
    attempt("rr", [&](Arrays& out) {
      auto [values, pull] = vjp(backwards, at);
      add(out, std::get<0>(pull(ones_like_each(values))));
    });
  }
  return found;
}

using Group = std::vector<const EdgeCase*>;

/// The cases of a dtype in groups whose computations are one program.
template <class Check>
void for_each_group(int every, Check check) {
  constexpr std::size_t kSize = 24;
  std::map<std::string, Group> groups;
  std::uint32_t number = 0;
  for (const EdgeCase& c : edge_cases()) {
    // Some of each function and dtype: a product with the golden ratio scatters the numbers.
    if ((number++ * 2654435769u >> 16) % static_cast<std::uint32_t>(every) != 0) continue;
    Group& group = groups[c.dtype];
    group.push_back(&c);
    if (group.size() == kSize) check(std::exchange(group, {}));
  }
  for (const auto& [dtype, group] : groups)
    if (!group.empty()) check(group);
}

std::vector<Arrays> operands_of(const Group& group) {
  std::vector<Arrays> all;
  for (const EdgeCase* c : group) all.push_back(c->operands());
  return all;
}

/// The parts of a group's cases, one after the other; the errors of tracing go to `found`.
auto all_of(const Group& group, std::vector<Found>& found) {
  return [&](const std::vector<Arrays>& operands) {
    found.clear();
    std::vector<Arrays> out;
    for (std::size_t i = 0; i < group.size(); ++i) {
      found.push_back(evaluate(*group[i], operands[i]));
      for (const auto& [part, arrays] : found.back().parts) out.push_back(arrays);
    }
    return out;
  };
}

/// The arrays that a program gave, in the places of its tracers.
void fill(std::vector<Found>& found, const std::vector<Arrays>& results) {
  std::size_t next = 0;
  for (Found& each : found)
    for (auto& [part, arrays] : each.parts) arrays = results[next++];
}

void compare(const Group& group, const std::vector<Found>& found, EdgeReport& report) {
  for (std::size_t i = 0; i < group.size(); ++i) {
    for (const auto& [part, expected] : group[i]->parts) {
      const auto error = found[i].errors.find(part);
      if (error != found[i].errors.end())
        report.refused(*group[i], part, error->second);
      else
        report.compare(*group[i], part, found[i].parts.at(part));
    }
  }
}

TEST(GoldenEdges, UnderJit_EachFunctionEqualsJaxs) {
  EdgeReport report("jit");
  const int every = testing::rounds("LOCKSTEP_EDGES_EVERY", 6, 1);
  for_each_group(every, [&](const Group& group) {
    std::vector<Found> found;
    fill(found, jit(all_of(group, found))(operands_of(group)));
    compare(group, found, report);
  });
  report.expect_no_others();
  if (every != 1) return;
  report.expect_each_known_difference();
  report.expect_page();
}

TEST(GoldenEdges, UnderVmap_EachFunctionEqualsJaxs) {
  EdgeReport report("vmap");
  for_each_group(testing::rounds("LOCKSTEP_EDGES_EVERY", 48, 4), [&](const Group& group) {
    std::vector<Arrays> twice = operands_of(group);
    for (Arrays& operands : twice)
      for (Array& x : operands) x = stack({x, x});
    std::vector<Found> found;
    std::vector<Arrays> results = jit(vmap(all_of(group, found)))(twice);
    for (std::int64_t example : {0, 1}) {
      std::vector<Arrays> of_one = results;
      for (Arrays& arrays : of_one)
        for (Array& x : arrays) x = index(x, example);
      fill(found, of_one);
      compare(group, found, report);
    }
  });
  report.expect_no_others();
}

TEST(GoldenEdges, WithoutJit_EachFunctionEqualsJaxs) {
  EdgeReport report("eager");
  const DisableJit here;
  for_each_group(testing::rounds("LOCKSTEP_EDGES_EVERY", 96, 16), [&](const Group& group) {
    std::vector<Found> found;
    for (const EdgeCase* c : group) found.push_back(evaluate(*c, c->operands()));
    compare(group, found, report);
  });
  report.expect_no_others();
}

TEST(GoldenEdges, TheFileAndThisTest_NameTheSameFunctions) {
  for (const std::string& name : edge_names()) EXPECT_TRUE(edge_functions().contains(name)) << name;
}

}  // namespace
}  // namespace lockstep::golden
