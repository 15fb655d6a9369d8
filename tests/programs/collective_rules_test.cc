// SPDX-License-Identifier: Apache-2.0
// Each collective as mathematics on one device: its values, derivative and batching, over one axis, over two
// in either order, and within groups.

#include <map>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using test::line_mesh;
using test::number;
using test::square_mesh;
using test::waves;
using ::testing::HasSubstr;

using Rows = std::vector<Array>;

/// A collective of devices that have a [4, 2] array each.
struct Collective {
  const char* name;
  std::function<Array(Array, AxisNames, AxisIndexGroups)> local;

  /// The result on the k-th device of a group, from the arrays of all devices of the group.
  std::function<Array(const Rows&, std::int64_t k)> whole;
  bool has_derivative = true;
  bool takes_groups = true;
};

Array sum_of(const Rows& rows) {
  Array sum = rows[0];
  for (std::size_t i = 1; i < rows.size(); ++i) sum = sum + rows[i];
  return sum;
}

/// The k-th of n parts along dimension 0.
Array part(const Array& x, std::int64_t k, std::size_t n) {
  const std::int64_t size = x.shape()[0] / static_cast<std::int64_t>(n);
  Shape start(x.shape().size()), limit = x.shape();
  start[0] = k * size;
  limit[0] = start[0] + size;
  return slice(x, start, limit);
}

std::vector<Collective> all_collectives() {
  return {
      {"psum", [](Array a, AxisNames axes, AxisIndexGroups groups) { return psum(a, axes, {groups}); },
       [](const Rows& rows, std::int64_t) { return sum_of(rows); }},
      {"pmean", [](Array a, AxisNames axes, AxisIndexGroups groups) { return pmean(a, axes, {groups}); },
       [](const Rows& rows, std::int64_t) { return sum_of(rows) / static_cast<double>(rows.size()); }},
      {"pmax", [](Array a, AxisNames axes, AxisIndexGroups groups) { return pmax(a, axes, {groups}); },
       [](const Rows& rows, std::int64_t) { return max(stack(rows), 0); }, false},
      {"pmin", [](Array a, AxisNames axes, AxisIndexGroups groups) { return pmin(a, axes, {groups}); },
       [](const Rows& rows, std::int64_t) { return min(stack(rows), 0); }, false},
      {"all_gather",
       [](Array a, AxisNames axes, AxisIndexGroups groups) {
         return all_gather(a, axes, {.axis = 1, .axis_index_groups = groups});
       },
       [](const Rows& rows, std::int64_t) { return stack(rows, 1); }},
      {"all_gather, tiled",
       [](Array a, AxisNames axes, AxisIndexGroups groups) {
         return all_gather(a, axes, {.axis = 1, .tiled = true, .axis_index_groups = groups});
       },
       [](const Rows& rows, std::int64_t) { return concatenate(rows, 1); }},
      {"psum_scatter",
       [](Array a, AxisNames axes, AxisIndexGroups groups) {
         Array given = groups ? reshape(a, {2, 4}) : a;  // as many rows as devices in a group
         return psum_scatter(given, axes, {.axis_index_groups = groups});
       },
       [](const Rows& rows, std::int64_t k) {
         Array mine = part(sum_of(rows), k, rows.size());
         return reshape(mine, {mine.size()});
       }},
      {"psum_scatter, tiled",
       [](Array a, AxisNames axes, AxisIndexGroups groups) {
         return psum_scatter(a, axes, {.tiled = true, .axis_index_groups = groups});
       },
       [](const Rows& rows, std::int64_t k) { return part(sum_of(rows), k, rows.size()); }},
      {"all_to_all",
       [](Array a, AxisNames axes, AxisIndexGroups groups) { return all_to_all(a, axes, 0, 1, groups); },
       [](const Rows& rows, std::int64_t k) {
         Rows parts;
         for (const Array& row : rows) parts.push_back(part(row, k, rows.size()));
         return concatenate(parts, 1);
       }},
      {"ppermute",
       [](Array a, AxisNames axes, AxisIndexGroups) {
         return ppermute(a, axes, {{0, 2}, {3, 1}, {1, 0}});
       },
       [](const Rows& rows, std::int64_t k) {
         static const std::map<std::int64_t, std::size_t> source_of = {{2, 0}, {1, 3}, {0, 1}};
         auto found = source_of.find(k);
         return found == source_of.end() ? zeros({4, 2}) : rows[found->second];
       },
       true, false},
      {"pshuffle",
       [](Array a, AxisNames axes, AxisIndexGroups) {
         return pshuffle(a, axes, {2, 0, 3, 1});
       },
       [](const Rows& rows, std::int64_t k) {
         static const std::size_t permutation[] = {2, 0, 3, 1};
         return rows[permutation[k]];
       },
       true, false},
  };
}

struct Along {
  const char* name;
  Mesh mesh;
  P spec;
  AxisNames axes;
  AxisIndexGroups given;
  std::vector<std::vector<int>> groups;  ///< of the devices in the order of the spec
};

std::vector<Along> all_ways() {
  return {{"one axis", line_mesh(), P("x"), "x", {}, {{0, 1, 2, 3}}},
          {"two axes", square_mesh(), P({"x", "y"}), {"x", "y"}, {}, {{0, 1, 2, 3}}},
          {"two axes, the other way", square_mesh(), P({"x", "y"}), {"y", "x"}, {}, {{0, 2, 1, 3}}},
          {"one of two axes", square_mesh(), P({"x", "y"}), "y", {}, {{0, 1}, {2, 3}}},
          {"groups", line_mesh(), P("x"), "x", {{{0, 2}, {3, 1}}}, {{0, 2}, {3, 1}}}};
}

/// f(x), the gradient of a number that it makes, and both for each of several x.
template <class F>
auto with_rules(F f, bool has_derivative) {
  return jit([f, has_derivative](Array x, Array many) {
    auto number = [f](Array x) {
      Array y = f(x);
      return sum(sin(y) * astype(reshape(arange(y.size()), y.shape()), float32));
    };
    Rows results = {f(x), vmap(f)(many)};
    if (has_derivative) {
      results.push_back(grad(number)(x));
      results.push_back(vmap(grad(number))(many));
    }
    return results;
  });
}

TEST(CollectiveRules, EqualThoseOfTheComputationOnOneDevice) {
  const Array x = waves({4, 4, 2}), many = waves({3, 4, 4, 2}, 2);
  for (const Along& along : all_ways()) {
    for (const Collective& collective : all_collectives()) {
      const bool some = along.groups.size() > 1;
      if (some && !collective.takes_groups) continue;
      // Untiled, psum_scatter takes as many rows as devices.
      if (some && !along.given && std::string(collective.name) == "psum_scatter") continue;
      SCOPED_TRACE(std::string(collective.name) + " along " + along.name);
      auto split = shard_map(
          [&](Array a) {
            return expand_dims(collective.local(reshape(a, {4, 2}), along.axes, along.given), 0);
          },
          {.mesh = along.mesh, .in_specs = {along.spec}, .out_specs = {along.spec}});
      auto whole = [&](Array x) {
        Rows rows, results(4);
        for (std::int64_t i = 0; i < 4; ++i) rows.push_back(reshape(part(x, i, 4), {4, 2}));
        for (const std::vector<int>& group : along.groups) {
          Rows members;
          for (int i : group) members.push_back(rows[static_cast<std::size_t>(i)]);
          for (std::size_t k = 0; k < group.size(); ++k)
            results[static_cast<std::size_t>(group[k])] =
                collective.whole(members, static_cast<std::int64_t>(k));
        }
        return stack(results);
      };
      const Rows actual = with_rules(split, collective.has_derivative)(x, many);
      const Rows expected = with_rules(whole, collective.has_derivative)(x, many);
      ASSERT_EQ(actual.size(), expected.size());
      for (std::size_t i = 0; i < actual.size(); ++i) {
        SCOPED_TRACE(i);
        expect_equal(actual[i], expected[i]);
      }
    }
  }
}

TEST(CollectiveRules, ExtremesHaveNoDerivative_AndSayWhatToDo) {
  for (auto extreme : {&pmax, &pmin}) {
    auto loss = [&](Array x) {
      return sum(shard_map([&](Array a) { return (*extreme)(a, "x", {}); },
                           {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P()}})(x));
    };
    EXPECT_THAT(error_of<TraceError>([&] { grad(loss)(waves({4})); }),
                ::testing::AllOf(HasSubstr("has no derivative (at collective_rules_test.cc:"),
                                 HasSubstr("stop_gradient")));
  }
}

/// Found by the fuzzer: what one branch keeps for its derivative varies over the devices, what the other one
/// keeps does not.
TEST(CollectiveRules, VaryingAndUnvaryingBranches_HaveTheRightDerivatives) {
  for (int branch : {0, 1}) {
    auto sum_of = [branch](Array x) {
      auto varies = [&](Array a) { return pvary(exp(a) / (1.f - a), "x"); };
      auto does_not = [](Array a) { return a * square(a); };
      return psum(switch_(full({}, branch, int32), std::tuple(varies, does_not), x), "x");
    };
    auto split = [&](Array x) {
      return shard_map(sum_of, {.mesh = line_mesh(), .in_specs = {P()}, .out_specs = {P()}})(x);
    };
    auto whole = [branch](Array x) { return 4.f * (branch == 0 ? exp(x) / (1.f - x) : x * square(x)); };
    auto derivatives = [](auto f) {
      return [f](Array x) {
        auto first = [f](Array a) { return grad(f)(a) * 1.5f; };
        auto second = [first](Array a) { return grad(first)(a) * 0.5f; };
        return std::tuple(f(x), first(x), second(x), grad(second)(x));
      };
    };
    const Array x = number(0.3f);
    const auto expected = tree::flatten(derivatives(whole)(x)).first;
    for (const auto& got :
         {tree::flatten(derivatives(split)(x)).first, tree::flatten(jit(derivatives(split))(x)).first}) {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        SCOPED_TRACE(i);
        expect_equal(got[i], expected[i]);
      }
    }
  }
}

TEST(CollectiveRules, VmapInsideShardMap_EqualsEachExampleAlone) {
  const Array x = waves({4, 3, 2});
  auto each = [](Array row) { return psum(row * row, "x") + psum_scatter(row, "y", {.tiled = true}); };
  auto inside = shard_map(
      [&](Array a) {
        return expand_dims(vmap(each)(reshape(a, {3, 2})), 0);
      },
      {.mesh = square_mesh(), .in_specs = {P({"x", "y"})}, .out_specs = {P({"x", "y"})}});
  Rows rows, expected;
  for (std::int64_t i = 0; i < 4; ++i) rows.push_back(reshape(part(x, i, 4), {3, 2}));
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t over_x = (i + 2) % 4, over_y = i ^ 1;
    const auto column = static_cast<std::int64_t>(i % 2);
    Array mine = slice(rows[i] + rows[over_y], {0, column}, {3, column + 1});
    expected.push_back(rows[i] * rows[i] + rows[over_x] * rows[over_x] + broadcast_to(mine, {3, 2}));
  }
  expect_equal(inside(x), stack(expected));
}

}  // namespace
}  // namespace lockstep
