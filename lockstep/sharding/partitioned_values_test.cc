// SPDX-License-Identifier: Apache-2.0
// Random programs, meshes and specs: what the devices of a mesh compute together is what one device computes.

#include <gmock/gmock.h>

#include <numeric>
#include <random>
#include <set>

#include "lockstep/program/primitives/convolution.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/reverse.h"
#include "lockstep/program/primitives/sort.h"
#include "lockstep/program/primitives/window.h"
#include "lockstep/sharding/combining.h"
#include "lockstep/sharding/communication.h"
#include "lockstep/sharding/gather_again.h"
#include "lockstep/sharding/partitioner.h"
#include "lockstep/sharding/placement.h"
#include "lockstep/sharding/reference_evaluator_test.h"
#include "lockstep/sharding/sharding.h"
#include "lockstep/sharding/test_devices_test.h"
#include "lockstep/testing/rounds.h"

namespace lockstep::sharding {
namespace {

using testing::Index;
using testing::Tensor;

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(engine_); }
  bool coin() { return below(2) == 0; }

  /// From 0 to n; 0 where that is negative.
  std::int64_t upto(std::int64_t n) {
    return n <= 0 ? 0 : static_cast<std::int64_t>(below(static_cast<std::size_t>(n) + 1));
  }

  Shape shape(std::size_t rank) {
    static constexpr std::int64_t kSizes[] = {8, 4, 2, 16, 3, 6, 1};
    Shape shape;
    for (std::size_t d = 0; d < rank; ++d) shape.push_back(kSizes[std::min(below(7), below(7))]);
    return shape;
  }

  /// A spec that divides the shape.
  PartitionSpec spec(const Shape& shape, const Mesh& mesh) { return spec(shape, mesh, true); }

  /// Any spec; one that divides the shape, if it must.
  PartitionSpec spec(const Shape& shape, const Mesh& mesh, bool divides) {
    return spec(shape, mesh, mesh.axis_names(), divides);
  }
  PartitionSpec spec(const Shape& shape, const Mesh& mesh, std::vector<std::string> axes, bool divides) {
    std::ranges::shuffle(axes, engine_);
    std::vector<std::vector<std::string>> entries(shape.size());
    for (const std::string& axis : axes) {
      if (shape.empty() || below(4) == 0) continue;
      const std::size_t d = below(shape.size());
      if (!divides || shape[d] % (mesh.axis_env().size(entries[d]) * mesh.axis_size(axis)) == 0)
        entries[d].push_back(axis);
    }
    return PartitionSpec::from_entries(std::move(entries));
  }

  /// Some of the axes.
  std::vector<std::string> some(std::vector<std::string> axes) {
    std::erase_if(axes, [this](const std::string&) { return coin(); });
    return axes;
  }

  /// A spec of `rank` entries that names each of the axes.
  PartitionSpec spec_of_all(std::size_t rank, std::vector<std::string> axes) {
    std::ranges::shuffle(axes, engine_);
    std::vector<std::vector<std::string>> entries(rank);
    for (const std::string& axis : axes) entries[below(rank)].push_back(axis);
    return PartitionSpec::from_entries(std::move(entries));
  }

  Tensor tensor(const Shape& shape) {
    return testing::make(shape, [this](const Index&) { return static_cast<double>(below(7)) - 3; });
  }

 private:
  std::mt19937 engine_;
};

/// A shard_map with its own specs: over all axes of the mesh or some of them.
ir::Value add_random_shard_map(Random& random, const ir::Value& x, const Mesh& mesh) {
  const std::vector<std::string> manual = random.coin() ? mesh.axis_names() : random.some(mesh.axis_names());
  const PartitionSpec in_spec = random.spec(x.aval().shape, mesh, manual, true);
  ir::Value part = ir::lax::to_local(x, placement(mesh, in_spec, manual));
  if (random.coin()) part = ir::lax::neg(part);
  if (std::vector<std::string> axes = random.some(part.aval().varying); !axes.empty())
    part = ir::lax::sign(ir::lax::psum(part, axes));
  std::vector<std::string> named = part.aval().varying;
  if (x.aval().rank() == 0) return ir::lax::to_global(part, placement(mesh, PartitionSpec(), manual));
  for (const std::string& axis : manual) {  // the same on all devices: as often as the axis has devices
    if (!std::ranges::count(named, axis) && random.below(4) == 0 && num_elements(x.aval().shape) < 100)
      named.push_back(axis);
  }
  std::vector<std::string> missing = named;
  std::erase_if(missing,
                [&](const std::string& axis) { return std::ranges::count(part.aval().varying, axis); });
  if (!missing.empty()) part = ir::lax::pvary(part, missing);
  return ir::lax::to_global(part, placement(mesh, random.spec_of_all(x.aval().shape.size(), named), manual));
}

std::vector<std::int64_t> all_dims(std::int64_t rank) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// x, of three dimensions, with the kernels of another value, or part of x itself.
ir::Value add_random_convolution(Random& random, const ir::Value& x, const std::vector<ir::Value>& pool) {
  const Shape& shape = x.aval().shape;
  ir::Value kernels =
      ir::lax::slice(x, {0, 0, 0}, {1 + random.upto(shape[0] - 1), shape[1], 1 + random.upto(shape[2] - 1)});
  for (const ir::Value& v : pool)
    if (v.aval().rank() == 3 && v.aval().shape[1] == shape[1] && random.coin()) kernels = v;
  ir::ConvParams p;
  p.lhs_dilation = {1 + random.upto(1)};
  p.rhs_dilation = {1 + random.upto(1)};
  p.window_strides = {1 + random.upto(1)};
  p.padding_low = {random.upto(2)};
  p.lhs_spec = p.rhs_spec = p.out_spec = {0, 1, 2};
  // At least one result.
  const std::int64_t missing = ir::dilated(kernels.aval().shape[2], p.rhs_dilation[0]) -
                               ir::dilated(shape[2], p.lhs_dilation[0]) - p.padding_low[0];
  p.padding_high = {std::max<std::int64_t>(missing, 0) + random.upto(2)};
  return ir::lax::sign(ir::lax::conv_general_dilated(x, kernels, p));
}

ir::Value add_random_equation(Random& random, const std::vector<ir::Value>& pool, const Mesh& mesh) {
  const ir::Value x = pool[random.below(pool.size())];
  const Shape& shape = x.aval().shape;
  const std::int64_t rank = x.aval().rank();
  const auto d = rank == 0 ? 0 : static_cast<std::int64_t>(random.below(shape.size()));
  auto size = [&](std::int64_t dim) { return shape[static_cast<std::size_t>(dim)]; };
  auto peers = [&](auto&& fits) {
    std::vector<ir::Value> all;
    for (const ir::Value& v : pool) {
      if (fits(v)) all.push_back(v);
    }
    return all;
  };
  switch (random.below(24)) {
    case 15: {  // some of the elements along each dimension
      if (rank == 0) return x;
      std::vector<std::int64_t> start, limit, strides;
      for (std::int64_t n : shape) {
        strides.push_back(random.coin() ? 1 : 2);
        start.push_back(random.coin() ? 0 : random.upto(n / 2));
        limit.push_back(random.coin() ? n : std::max(start.back() + 1, n - random.upto(n / 2)));
      }
      return ir::lax::slice(x, start, limit, strides);
    }
    case 16:
    case 17: {  // from before, between and behind
      if (rank == 0 || num_elements(shape) > 200) return ir::lax::neg(x);
      std::vector<std::int64_t> low, high, interior;
      for (std::int64_t n : shape) {
        interior.push_back(random.below(4) == 0 ? 1 : 0);
        low.push_back(random.coin() ? 0 : random.upto(n) - n / 3);
        const std::int64_t total = low.back() + n + (n - 1) * interior.back();
        // As often as not, as many as there were, or twice as many.
        high.push_back(random.coin() ? n * (random.coin() ? 1 : 2) - total
                                     : 1 + random.upto(3) - std::min<std::int64_t>(low.back(), 0));
        if (total + high.back() < 1) high.back() = 1 - total;
      }
      return ir::lax::pad(x, ir::lax::full_like(ir::lax::reduce_sum(x, all_dims(rank)), 2), low, high,
                          interior);
    }
    case 23: {  // all in order, or the first few
      if (rank == 0) return x;
      if (random.coin())
        return ir::lax::sort(std::span<const ir::Value>(&x, 1), d, 1, random.coin(), random.coin())[0];
      const std::int64_t count = 1 + random.upto(size(d) - 1);
      return ir::lax::first_sorted(std::span<const ir::Value>(&x, 1), d, count, 1, random.coin())[0];
    }
    case 18:
      return rank == 0 ? x : ir::lax::rev(x, random.coin() ? all_dims(rank) : std::vector<std::int64_t>{d});
    case 19:
      if (rank == 0) return x;
      return random.coin() ? ir::lax::sign(ir::lax::cumulative(ir::cumsum_p(), x, d, random.coin()))
                           : ir::lax::cumulative(ir::cummax_p(), x, d, random.coin());
    case 20:
      return rank == 0 ? x : ir::lax::convert_element_type(ir::lax::argmax(x, d), DType::kF32);
    case 21: {  // the elements turned round by some places
      if (rank == 0 || size(d) < 2) return x;
      const std::int64_t by = 1 + random.upto(size(d) - 2);
      if (random.coin()) return ir::lax::rotate(x, d, by);
      Shape start(shape.size()), middle = shape, middle_start = start;
      middle[static_cast<std::size_t>(d)] = middle_start[static_cast<std::size_t>(d)] = by;
      const ir::Value both[] = {ir::lax::slice(x, middle_start, shape), ir::lax::slice(x, start, middle)};
      return ir::lax::concatenate(std::span<const ir::Value>(both), d);
    }
    case 22: {
      if (rank == 0) return x;
      if (rank == 3 && random.coin()) return add_random_convolution(random, x, pool);
      Shape windows;
      std::vector<std::int64_t> strides;
      Padding padding;
      for (std::int64_t n : shape) {
        windows.push_back(1 + random.upto(std::min<std::int64_t>(n - 1, 3)));
        strides.push_back(1 + random.upto(1));
        padding.emplace_back(random.upto(2), random.upto(2));
      }
      const ir::Primitive& kind = random.coin() ? ir::reduce_window_max_p() : ir::reduce_window_sum_p();
      return ir::lax::sign(ir::lax::reduce_window(kind, x, windows, strides, padding));
    }
    case 12:
    case 13:
    case 14:
      return add_random_shard_map(random, x, mesh);
    case 11:
      return ir::lax::sharding_constraint(x, placement(mesh, random.spec(shape, mesh, false)));
    case 0:
      return ir::lax::neg(x);
    case 1: {
      auto same = peers([&](const ir::Value& v) { return v.aval().shape == shape; });
      const ir::Value y = same[random.below(same.size())];
      return random.coin() ? ir::lax::add(x, y) : ir::lax::max(x, ir::lax::neg(y));
    }
    case 2: {  // a matrix product over dimension d and any of another's of its size
      if (rank == 0) return x;
      auto fits = peers([&](const ir::Value& v) {
        return v.aval().rank() <= 2 && std::ranges::count(v.aval().shape, size(d));
      });
      if (fits.empty() || rank > 2) return ir::lax::abs(x);
      const ir::Value y = fits[random.below(fits.size())];
      const auto e = std::ranges::find(y.aval().shape, size(d)) - y.aval().shape.begin();
      return ir::lax::sign(ir::lax::dot_general(x, y, {{d}, {e}, {}, {}}));
    }
    case 3: {  // the same, for each index of a leading batch dimension
      if (rank < 2) return x;
      auto fits = peers([&](const ir::Value& v) {
        return v.aval().rank() == rank && v.aval().shape[0] == shape[0] && v.aval().shape[1] == shape[1];
      });
      return ir::lax::sign(ir::lax::dot_general(x, fits[random.below(fits.size())], {{1}, {1}, {0}, {0}}));
    }
    case 4:
      return rank == 0 ? x : ir::lax::sign(ir::lax::reduce_sum(x, {d}));
    case 5:
      return rank == 0 ? x : random.coin() ? ir::lax::reduce_max(x, {d}) : ir::lax::reduce_min(x, {d});
    case 6: {  // a new dimension, in front or behind
      if (rank > 2) return x;
      const std::int64_t n = random.coin() ? 4 : 8;
      Shape to = shape;
      std::vector<std::int64_t> dims(shape.size());
      const bool front = random.coin();
      to.insert(front ? to.begin() : to.end(), n);
      for (std::size_t i = 0; i < dims.size(); ++i) dims[i] = static_cast<std::int64_t>(i) + (front ? 1 : 0);
      return ir::lax::broadcast_in_dim(x, to, dims);
    }
    case 7: {
      if (rank < 2) return ir::lax::sign(x);
      std::vector<std::int64_t> permutation;
      for (std::int64_t i = 0; i < rank; ++i) permutation.push_back((i + 1) % rank);
      return ir::lax::transpose(x, permutation);
    }
    case 8: {  // two dimensions into one, or one into two
      if (rank >= 2) {
        Shape to(shape.begin() + 1, shape.end());
        to[0] *= shape[0];
        return ir::lax::reshape(x, to);
      }
      if (rank == 1 && shape[0] % 4 == 0) return ir::lax::reshape(x, {shape[0] / 4, 4});
      return ir::lax::neg(x);
    }
    case 9: {
      if (rank == 0 || size(d) > 16) return x;
      auto same = peers([&](const ir::Value& v) { return v.aval().shape == shape; });
      const ir::Value both[] = {x, same[random.below(same.size())]};
      return ir::lax::concatenate(std::span<const ir::Value>(both), d);
    }
    default: {
      if (rank == 0) return x;
      ir::Value places = ir::lax::iota(x, DType::kF32, shape, d);
      return ir::lax::select(ir::lax::gt(places, ir::lax::full_like(x, 1)), x, ir::lax::neg(places));
    }
  }
}

class PartitionedValues : public ::testing::TestWithParam<Shape> {};

TEST_P(PartitionedValues, RandomPrograms_EqualOneDevice) {
  static const std::vector<std::string> kNames = {"a", "b", "c"};
  const Mesh mesh = testing::test_mesh(GetParam(), {kNames.begin(), kNames.begin() + GetParam().size()});
  const ir::AxisEnvScope axes(mesh.axis_env());
  std::set<std::string> kinds;
  int num_combined = 0, num_again = 0;
  const auto seeds = static_cast<unsigned>(lockstep::testing::rounds("LOCKSTEP_TEST_PARTITIONS", 150, 2000));
  for (unsigned seed = 0; seed < seeds; ++seed) {
    Random random(seed);
    ir::Builder builder("random");
    std::vector<ir::Value> pool;
    for (std::size_t i = 0; i < 3; ++i)
      pool.push_back(builder.input(Aval{DType::kF32, random.shape(1 + random.below(3))}));
    for (int i = 0; i < 9; ++i) pool.push_back(add_random_equation(random, pool, mesh));
    const std::vector<ir::Value> outputs = {pool[pool.size() - 1], pool[pool.size() - 3],
                                            pool[random.below(pool.size())]};
    const ir::Program global = builder.finish(outputs);

    PartitionOptions options{mesh.axis_env(), {}, {}};
    std::vector<std::vector<Tensor>> whole, parts;
    auto split = [&](const Tensor& t, const PartitionSpec& spec) { return testing::parts(t, mesh, spec); };
    for (const Aval& aval : global.input_avals()) {
      options.in_specs.push_back(random.spec(aval.shape, mesh));
      const Tensor t = random.tensor(aval.shape);
      whole.emplace_back(static_cast<std::size_t>(mesh.size()), t);
      parts.push_back(split(t, options.in_specs.back()));
    }
    for (const Aval& aval : global.output_avals()) {
      options.out_specs.push_back(std::nullopt);
      if (random.coin()) options.out_specs.back() = random.spec(aval.shape, mesh);
    }
    const Partitioned partitioned = partition(global, options);
    for (const CommunicationLine& line : communication(partitioned.program, mesh.axis_env()))
      kinds.insert(line.kind);
    const auto expected = testing::evaluate(global, mesh.axis_env(), whole);
    const auto found = testing::evaluate(partitioned.program, mesh.axis_env(), parts);
    const ir::Program again = gather_again(partitioned.program, random.coin() ? 0 : 256, 0);
    num_again += again.equations.size() != partitioned.program.equations.size();
    const CombineOptions combining{.threshold_bytes = random.coin() ? 64 : 1 << 20,
                                   .gathered_bytes = random.coin() ? 256 : 1 << 20};
    const ir::Program combined = combine_collectives(again, mesh.axis_env(), combining);
    num_combined += combined.equations.size() != again.equations.size();
    ASSERT_TRUE(testing::evaluate(combined, mesh.axis_env(), parts) == found)
        << "seed " << seed << "\n"
        << to_string(partitioned.program) << to_string(combined);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (options.out_specs[i]) {
        EXPECT_EQ(partitioned.out_specs[i], *options.out_specs[i]);
      }
      const bool same = found[i] == split(expected[i][0], partitioned.out_specs[i]);
      ASSERT_TRUE(same) << "seed " << seed << ", output " << i << " with "
                        << partitioned.out_specs[i].to_string() << "\n"
                        << to_string(global) << to_string(partitioned.program);
    }
  }
  EXPECT_THAT(kinds,
              ::testing::ElementsAre("all-gather", "all-reduce", "all-to-all", "permute", "reduce-scatter"));
  EXPECT_GT(num_combined, static_cast<int>(seeds) / 15);
  EXPECT_GT(num_again, static_cast<int>(seeds) / 15);
}

INSTANTIATE_TEST_SUITE_P(Meshes, PartitionedValues,
                         ::testing::Values(Shape{4}, Shape{2, 2}, Shape{2, 4}, Shape{2, 2, 2}, Shape{3, 2}));

}  // namespace
}  // namespace lockstep::sharding
