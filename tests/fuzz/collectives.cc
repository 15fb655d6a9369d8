// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <map>

#include "lockstep/array/sharding_constraint.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/ops/ops.h"
#include "tests/fuzz/interpreter.h"

namespace lockstep::fuzz {
namespace {

std::vector<std::pair<int, int>> pairs(const std::vector<std::int64_t>& ints) {
  std::vector<std::pair<int, int>> all;
  for (std::size_t i = 0; i + 1 < ints.size(); i += 2) all.emplace_back(ints[i], ints[i + 1]);
  return all;
}

/// Part i of n along the dimension.
Array part(const Array& x, std::int64_t dimension, std::int64_t i, std::int64_t n) {
  const auto d = static_cast<std::size_t>(dimension);
  const std::int64_t size = x.shape()[d] / n;
  std::vector<std::int64_t> starts(x.shape().size(), 0), limits = x.shape();
  starts[d] = i * size;
  limits[d] = (i + 1) * size;
  return slice(x, starts, limits);
}

}  // namespace

Arrays Interpreter::shard_map(const Node& node) const {
  if (!mesh_) return node.op == "constraint" ? each(node.operands[0]) : emulated_shard_map(node);
  if (node.op == "constraint") {
    return {with_sharding_constraint(at(node.operands[0], 0),
                                     NamedSharding(*mesh_, partition_spec(node.out_specs[0])))};
  }
  auto specs = [](const std::vector<Spec>& all) {
    std::vector<PartitionSpec> given;
    for (const Spec& spec : all) given.push_back(partition_spec(spec));
    return tree::Prefix<PartitionSpec>{std::move(given)};
  };
  ShardMapOptions options{*mesh_, specs(node.in_specs), specs(node.out_specs), {}};
  if (node.axes.size() < program_->mesh.size()) options.axis_names = node.axes;
  return lockstep::shard_map(Function(*this, node.bodies[0]), std::move(options))(flat(node.operands));
}

Arrays Interpreter::collective(const Node& node) const {
  if (!mesh_ && node.text.empty()) return emulated_collective(node);
  const AxisNames axes = node.text.empty() ? AxisNames(node.axes) : AxisNames(node.text);
  Arrays results;
  for (std::size_t r = 0; r < replicas(); ++r) {
    if (node.op == "axis_index") {
      results.push_back(axis_index(axes));
      continue;
    }
    const Array& x = at(node.operands[0], r);
    const auto& ints = node.ints;
    if (node.op == "psum") results.push_back(psum(x, axes));
    if (node.op == "pmean") results.push_back(pmean(x, axes));
    if (node.op == "pmax") results.push_back(pmax(x, axes));
    if (node.op == "pmin") results.push_back(pmin(x, axes));
    if (node.op == "pvary") results.push_back(pvary(x, axes));
    if (node.op == "all_gather")
      results.push_back(all_gather(x, axes, {.axis = ints[0], .tiled = ints[1] != 0}));
    if (node.op == "psum_scatter")
      results.push_back(psum_scatter(x, axes, {.scatter_dimension = ints[0], .tiled = true}));
    if (node.op == "all_to_all") results.push_back(all_to_all(x, axes, ints[0], ints[1]));
    if (node.op == "ppermute") results.push_back(ppermute(x, axes, pairs(ints)));
    if (node.op == "pshuffle")
      results.push_back(pshuffle(x, axes, std::vector<int>(ints.begin(), ints.end())));
  }
  return results;
}

std::int64_t Interpreter::place(std::size_t replica, const std::vector<std::string>& axes) const {
  std::map<std::string, std::int64_t> coordinates;
  auto rest = static_cast<std::int64_t>(replica);
  for (auto axis = emulated_.rbegin(); axis != emulated_.rend(); ++axis) {
    coordinates[*axis] = rest % program_->axis_size(*axis);
    rest /= program_->axis_size(*axis);
  }
  std::int64_t place = 0;
  for (const std::string& axis : axes) place = place * program_->axis_size(axis) + coordinates[axis];
  return place;
}

std::vector<std::size_t> Interpreter::group(std::size_t replica, const std::vector<std::string>& axes) const {
  std::vector<std::string> others;
  for (const std::string& axis : emulated_) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) others.push_back(axis);
  }
  std::vector<std::size_t> members(static_cast<std::size_t>(cuts(*program_, axes)));
  for (std::size_t r = 0; r < static_cast<std::size_t>(cuts(*program_, emulated_)); ++r) {
    if (place(r, others) == place(replica, others)) members[static_cast<std::size_t>(place(r, axes))] = r;
  }
  return members;
}

Arrays Interpreter::emulated_collective(const Node& node) const {
  Arrays results;
  const auto& ints = node.ints;
  for (std::size_t replica = 0; replica < replicas(); ++replica) {
    const std::size_t r = only_.value_or(replica);
    if (node.op == "axis_index") {
      results.push_back(
          array(std::vector<std::int32_t>{static_cast<std::int32_t>(place(r, node.axes))}, Shape{}));
      continue;
    }
    if (node.op == "pvary") {
      results.push_back(at(node.operands[0], r));
      continue;
    }
    Arrays members;
    const std::vector<std::size_t> of_group = group(r, node.axes);
    for (std::size_t m : of_group) members.push_back(at(node.operands[0], m));
    const auto n = static_cast<std::int64_t>(members.size()), self = place(r, node.axes);
    auto fold = [&](auto&& combine) {
      Array all = members[0];
      for (std::size_t i = 1; i < members.size(); ++i) all = combine(all, members[i]);
      return all;
    };
    auto total = [&] { return fold([](const Array& x, const Array& y) { return x + y; }); };
    if (node.op == "psum") results.push_back(total());
    if (node.op == "pmean") results.push_back(total() * (1.0 / static_cast<double>(n)));
    if (node.op == "pmax")
      results.push_back(fold([](const Array& x, const Array& y) { return maximum(x, y); }));
    if (node.op == "pmin")
      results.push_back(fold([](const Array& x, const Array& y) { return minimum(x, y); }));
    if (node.op == "all_gather")
      results.push_back(ints[1] != 0 ? concatenate(members, ints[0]) : stack(members, ints[0]));
    if (node.op == "psum_scatter") results.push_back(part(total(), ints[0], self, n));
    if (node.op == "all_to_all") {
      Arrays parts;
      for (const Array& each : members) parts.push_back(part(each, ints[0], self, n));
      results.push_back(concatenate(parts, ints[1]));
    }
    if (node.op == "ppermute") {
      Array got = zeros_like(members[0]);
      for (const auto& [from, to] : pairs(ints)) {
        if (to == self) got = members[static_cast<std::size_t>(from)];
      }
      results.push_back(got);
    }
    if (node.op == "pshuffle")
      results.push_back(members[static_cast<std::size_t>(ints[static_cast<std::size_t>(self)])]);
  }
  return results;
}

Arrays Interpreter::emulated_shard_map(const Node& node) const {
  Interpreter inside = *this;
  inside.emulated_ = node.axes;
  inside.only_.reset();
  Arrays inputs;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    for (std::size_t r = 0; r < inside.replicas(); ++r) {
      Array x = at(node.operands[i], 0);
      for (std::size_t d = 0; d < node.in_specs[i].size(); ++d) {
        const auto& axes = node.in_specs[i][d];
        if (!axes.empty())
          x = part(x, static_cast<std::int64_t>(d), inside.place(r, axes), cuts(*program_, axes));
      }
      inputs.push_back(x);
    }
  }
  const Arrays outputs = Function(inside, node.bodies[0])(inputs);
  Arrays results;
  for (std::size_t o = 0; o < node.out_specs.size(); ++o) {
    const Spec& spec = node.out_specs[o];
    const Array* parts = &outputs[o * inside.replicas()];
    // The whole, from the replicas that agree with `r` in the dimensions before d.
    std::function<Array(std::size_t, std::size_t)> whole = [&](std::size_t r, std::size_t d) {
      if (d == spec.size()) return parts[r];
      if (spec[d].empty()) return whole(r, d + 1);
      Arrays along;
      for (std::size_t member : inside.group(r, spec[d])) along.push_back(whole(member, d + 1));
      return concatenate(along, static_cast<std::int64_t>(d));
    };
    results.push_back(whole(0, 0));
  }
  return results;
}

}  // namespace lockstep::fuzz
