// SPDX-License-Identifier: Apache-2.0
// Every primitive over meshes of 4, 2x2 and 2x2x2 devices, its operands split at random: what the devices
// compute together is what one computes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "lockstep/array/computation.h"
#include "lockstep/array/data.h"
#include "lockstep/array/device_put.h"
#include "lockstep/array/host.h"
#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/callback.h"
#include "lockstep/program/primitives/ffi_call.h"
#include "lockstep/program/test_examples.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/rounds.h"

namespace lockstep {
namespace {

using internal::ArrayType;
using internal::Computation;
using internal::ComputationOptions;
using test::Example;
using test::HostArray;

/// They say how values lie over a mesh or go between its devices, and have tests of their own.
bool is_of_a_mesh(const ir::Primitive& primitive) {
  static const std::set<const ir::Primitive*> all = {
      &ir::psum_p(),       &ir::pmax_p(),         &ir::pmin_p(),       &ir::pvary_p(),
      &ir::all_gather_p(), &ir::psum_scatter_p(), &ir::all_to_all_p(), &ir::ppermute_p(),
      &ir::axis_index_p(), &ir::to_local_p(),     &ir::to_global_p(),  &ir::sharding_constraint_p()};
  return all.contains(&primitive);
}

/// The array in another shape, its values repeated.
HostArray resized(const HostArray& x, const std::map<std::int64_t, std::int64_t>& sizes) {
  HostArray out{x.dtype, x.shape, {}};
  for (std::int64_t& size : out.shape) size = sizes.at(size);
  const auto n = static_cast<std::size_t>(num_elements(out.shape));
  for (std::size_t i = 0; i < n; ++i) out.values.push_back(x.values[i % x.values.size()]);
  return out;
}

/// The example with other sizes, equal ones staying equal, where its parameters fit those, too.
Example with_random_sizes(const Example& example, std::mt19937& random) {
  std::map<std::int64_t, std::int64_t> sizes;
  for (const HostArray& input : example.inputs)
    for (std::int64_t size : input.shape) sizes[size] = size;
  for (auto& [size, other] : sizes) other *= 1 + static_cast<std::int64_t>(random() % 4);
  Example other = example;
  for (HostArray& input : other.inputs) {
    if (input.values.empty()) return example;
    input = resized(input, sizes);
  }
  try {
    program_of(other);
  } catch (const Error&) {
    return example;
  }
  return other;
}

/// Each axis splits one of the dimensions that it divides, or none.
P random_spec(const Mesh& mesh, const Shape& shape, std::mt19937& random) {
  std::vector<std::string> axes = mesh.axis_names();
  std::ranges::shuffle(axes, random);
  std::vector<std::vector<std::string>> entries(shape.size());
  Shape left = shape;
  for (const std::string& axis : axes) {
    const std::size_t d = random() % (4 * shape.size() + 1) / 4;
    if (d >= shape.size() || left[d] % mesh.axis_size(axis) != 0) continue;
    left[d] /= mesh.axis_size(axis);
    entries[d].push_back(axis);
  }
  return P::from_entries(std::move(entries));
}

/// The examples in one program, because a compilation takes longer than what the test runs.
struct Programs {
  ir::Program program;
  std::vector<HostArray> inputs;
  std::vector<std::string> labels;  ///< of each result: the example that it is of
};

Programs joined(const std::vector<Example>& examples) {
  Programs all;
  ir::Builder builder("examples");
  std::vector<ir::Value> results;
  for (const Example& example : examples) {
    std::vector<ir::Value> operands;
    for (const HostArray& input : example.inputs) {
      operands.push_back(builder.input(input.aval()));
      all.inputs.push_back(input);
    }
    for (const ir::Value& result : builder.emit(*example.primitive, example.params, operands)) {
      results.push_back(result);
      all.labels.push_back(to_string(program_of(example)));
    }
  }
  all.program = builder.finish(results);
  return all;
}

std::vector<Array> run(const ir::Program& program, const std::vector<Array>& arguments,
                       const ComputationOptions& options) {
  std::vector<const ArrayType*> types;
  std::vector<const Array*> pointers;
  for (const Array& array : arguments) {
    types.push_back(internal::data_of(array)->type);
    pointers.push_back(&array);
  }
  return Computation::compile(program, types, options)->run(pointers);
}

HostArray on_host(const Array& array) {
  std::vector<char> bytes(static_cast<std::size_t>(array.aval().bytes()));
  const Array whole = device_put(array, SingleDeviceSharding(devices().front()));
  internal::data_of(whole)->shards.front().to_host(bytes.data(), bytes.size());
  return test::from_bytes(array.dtype(), array.shape(), bytes);
}

bool close(const HostArray& got, const HostArray& want) {
  if (got.dtype != want.dtype || got.shape != want.shape) return false;
  const bool is_single = want.dtype == DType::kF32 || want.dtype == DType::kC64;
  const double tolerance = is_single ? 1e-5 : is_inexact(want.dtype) ? 1e-10 : 0;
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    const double a = got.values[i], b = want.values[i];
    if (a != b && !(std::abs(a - b) <= tolerance * (1 + std::abs(b))) && !(std::isnan(a) && std::isnan(b)))
      return false;
  }
  return true;
}

/// One process with eight devices.
LOCKSTEP_CHILD(every_primitive) {
  initialize();
  const std::vector<Device> four(devices().begin(), devices().begin() + 4);
  std::vector<Mesh> meshes = {Mesh(four, {4}, {"a"}), Mesh(devices(), {2, 2, 2}, {"a", "b", "c"})};
  if (testing::long_tests()) meshes.push_back(Mesh(four, {2, 2}, {"a", "b"}));
  std::set<std::string> covered;
  std::size_t splits = 0;
  const unsigned seed = 2;
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  std::vector<Example> examples;
  for (const Example& example : test::all_examples()) {
    if (is_of_a_mesh(*example.primitive)) continue;
    covered.insert(example.primitive->name);
    examples.push_back(example.any_numbers ? with_random_sizes(example, random) : example);
  }
  const Programs all = joined(examples);
  std::vector<Array> alone;
  for (const HostArray& input : all.inputs)
    alone.push_back(internal::array_from_host(test::to_bytes(input).data(), input.dtype, input.shape));
  const std::vector<Array> expected = run(all.program, alone, {});
  for (const Mesh& mesh : meshes) {
    std::vector<Array> split;
    for (const Array& array : alone) {
      split.push_back(device_put(array, NamedSharding(mesh, random_spec(mesh, array.shape(), random))));
      splits += split.back().is_fully_replicated() ? 0 : 1;
    }
    ComputationOptions options;
    for (const Array& result : expected) {
      options.out_shardings.emplace_back();
      if (random() % 2 == 0)
        options.out_shardings.back() = NamedSharding(mesh, random_spec(mesh, result.shape(), random));
    }
    const std::vector<Array> results = run(all.program, split, options);
    ASSERT_EQ(results.size(), expected.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (close(on_host(results[i]), on_host(expected[i]))) continue;
      ADD_FAILURE() << "seed " << seed << ", " << mesh.to_string() << ", result with "
                    << results[i].sharding().to_string() << " of\n"
                    << all.labels[i];
    }
  }
  std::size_t there = 0;
  for (const ir::Primitive* primitive : ir::all_primitives()) {
    // Functions of the user's have tests of their own.
    const bool calls_host =
        primitive->has_effect || primitive == &ir::pure_callback_p() || primitive == &ir::ffi_call_p();
    there += is_of_a_mesh(*primitive) || calls_host ? 0 : 1;
  }
  EXPECT_EQ(covered.size(), there);
  EXPECT_GT(splits, testing::long_tests() ? 200u : 150u);
}

TEST(EveryPrimitive, OverMeshes_EqualsOneDevice) {
  for (const auto& result : testing::run_processes({.count = 1,
                            .child = "every_primitive",
                            .env = {{"LOCKSTEP_NUM_CPU_DEVICES", "8"}},
                            .coordinator = true,
                            .deadline = std::chrono::minutes(5)})) {
    EXPECT_EQ(result.exit_code, 0) << result.log;
  }
}

}  // namespace
}  // namespace lockstep
