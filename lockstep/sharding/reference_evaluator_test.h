// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/program/axis_env.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/sharding/reference_operations_test.h"
#include "lockstep/sharding/sharding.h"

/// A slow and simple evaluator of programs, for tests; it evaluates all positions of a mesh in lockstep.
namespace lockstep::sharding::testing {

/// A collective: the result of the member of rank r, from the operands of all members.
inline Tensor evaluate_collective(const ir::Equation& e, const std::vector<const Tensor*>& given,
                                  std::int64_t r) {
  const std::string& op = e.primitive->name;
  const Tensor& mine = *given[static_cast<std::size_t>(r)];
  auto joined = [&](double (*join)(double, double)) {
    return make(mine.shape, [&](const Index& i) {
      double all = given[0]->at(i);
      for (std::size_t g = 1; g < given.size(); ++g) all = join(all, given[g]->at(i));
      return all;
    });
  };
  if (op == "psum") return joined(plus);
  if (op == "pmax") return joined(larger);
  if (op == "pmin") return joined(smaller);
  const auto n = static_cast<std::int64_t>(given.size());
  auto gathered = [&](std::size_t dim, std::size_t split, bool all_to_all) {
    Shape shape = mine.shape;
    const std::int64_t size = mine.shape[dim];
    if (all_to_all) shape[split] /= n;
    shape[dim] *= n;
    return make(shape, [&](Index i) {
      const std::int64_t from = i[dim] / size;
      i[dim] %= size;
      if (all_to_all) i[split] += r * shape[split];
      return given[static_cast<std::size_t>(from)]->at(i);
    });
  };
  if (op == "all_gather")
    return gathered(static_cast<std::size_t>(e.params.as<ir::GatherParams>().dimension), 0, false);
  if (op == "all_to_all") {
    const auto& p = e.params.as<ir::AllToAllParams>();
    return gathered(static_cast<std::size_t>(p.concat_dimension), static_cast<std::size_t>(p.split_dimension),
                    true);
  }
  if (op == "ppermute") {
    for (const auto& [source, target] : e.params.as<ir::PermuteParams>().pairs)
      if (target == r) return *given[static_cast<std::size_t>(source)];
    return make(mine.shape, [](const Index&) { return 0.0; });
  }
  EXPECT_EQ(op, "psum_scatter");
  const auto dim = static_cast<std::size_t>(e.params.as<ir::GatherParams>().dimension);
  Tensor sum = joined(plus);
  Shape shape = sum.shape;
  shape[dim] /= n;
  return make(shape, [&](Index i) {
    i[dim] += r * shape[dim];
    return sum.at(i);
  });
}

inline std::vector<std::string> collective_axes(const ir::Equation& e) {
  const std::string& op = e.primitive->name;
  if (op == "psum" || op == "pmax" || op == "pmin") return e.params.as<ir::AxesParams>().axes;
  if (op == "all_gather" || op == "psum_scatter") return e.params.as<ir::GatherParams>().axes;
  if (op == "all_to_all") return e.params.as<ir::AllToAllParams>().axes;
  if (op == "ppermute") return e.params.as<ir::PermuteParams>().axes;
  return {};
}

/// to_local and to_global at all positions. A global value is stored as a whole at each position.
inline void evaluate_placement(const ir::Equation& e, const ir::AxisEnv& axes, const std::vector<Tensor>& in,
                               std::vector<Tensor>& out, const Shape& shape) {
  const auto& placement = e.params.as<ir::PlacementParams>();
  const bool enters = e.primitive == &ir::to_local_p();
  const Shape& part = enters ? shape : in[0].shape;
  std::vector<Index> starts(in.size(), Index(part.size()));  // the start of each position's part
  for (std::size_t d = 0; d < placement.spec.size(); ++d) {
    for (const auto& group : axes.groups(placement.spec[d])) {
      for (std::size_t r = 0; r < group.size(); ++r)
        starts[static_cast<std::size_t>(group[r])][d] = static_cast<std::int64_t>(r) * part[d];
    }
  }
  auto moved = [](Index i, const Index& by, std::int64_t sign) {
    for (std::size_t d = 0; d < i.size(); ++d) i[d] += sign * by[d];
    return i;
  };
  for (std::size_t p = 0; p < in.size(); ++p) {
    out[p] = make(shape, [&](const Index& i) {
      if (enters) return in[p].at(moved(i, starts[p], 1));
      for (std::size_t q = 0; q < in.size(); ++q) {
        const Index within = moved(i, starts[q], -1);
        bool is_here = true;
        for (std::size_t d = 0; d < within.size(); ++d)
          is_here = is_here && within[d] >= 0 && within[d] < part[d];
        if (is_here) return in[q].at(within);
      }
      ADD_FAILURE() << "no position has the element";
      return 0.0;
    });
  }
}

/// Runs a program whose equations have one result each. `inputs[i][p]` is input i at position p; outputs are
/// indexed in the same way. In a program that was not partitioned, each position has the whole value.
inline std::vector<std::vector<Tensor>> evaluate(const ir::Program& program, const ir::AxisEnv& axes,
                                                 const std::vector<std::vector<Tensor>>& inputs) {
  const auto positions = static_cast<std::size_t>(axes.num_positions());
  std::vector<std::vector<Tensor>> values(program.variables.size(), std::vector<Tensor>(positions));
  auto of = [&](ir::Var var) -> std::vector<Tensor>& { return values[static_cast<std::size_t>(var)]; };
  for (std::size_t i = 0; i < inputs.size(); ++i) of(program.inputs[i]) = inputs[i];
  for (const ir::Equation& e : program.equations) {
    std::vector<Tensor>& out = of(e.outputs[0]);
    if (e.primitive == &ir::to_local_p() || e.primitive == &ir::to_global_p()) {
      evaluate_placement(e, axes, of(e.inputs[0]), out, program.aval(e.outputs[0]).shape);
    } else if (e.primitive == &ir::axis_index_p()) {
      for (const auto& group : axes.groups(e.params.as<ir::AxesParams>().axes)) {
        for (std::size_t r = 0; r < group.size(); ++r)
          out[static_cast<std::size_t>(group[r])] = {{}, {double(r)}};
      }
    } else if (std::vector<std::string> over = collective_axes(e); !over.empty()) {
      for (const auto& group : axes.groups(over)) {
        std::vector<const Tensor*> given;
        for (int p : group) given.push_back(&of(e.inputs[0])[static_cast<std::size_t>(p)]);
        for (std::size_t r = 0; r < group.size(); ++r)
          out[static_cast<std::size_t>(group[r])] =
              evaluate_collective(e, given, static_cast<std::int64_t>(r));
      }
    } else {
      for (std::size_t p = 0; p < positions; ++p) {
        std::vector<Tensor> operands;
        for (ir::Var var : e.inputs) operands.push_back(of(var)[p]);
        out[p] = evaluate_local(e, operands, program.aval(e.outputs[0]).shape);
      }
    }
    for (const Tensor& t : out) EXPECT_EQ(t.shape, program.aval(e.outputs[0]).shape) << e.primitive->name;
  }
  std::vector<std::vector<Tensor>> outputs;
  for (ir::Var var : program.outputs) outputs.push_back(of(var));
  return outputs;
}

/// The part of x at each position.
inline std::vector<Tensor> parts(const Tensor& x, const Mesh& mesh, const PartitionSpec& spec) {
  std::vector<Tensor> all;
  for (const auto& ranges : NamedSharding(mesh, spec).device_indices(x.shape)) {
    Shape local;
    for (const IndexRange& range : ranges) local.push_back(range.limit - range.start);
    all.push_back(make(local, [&](Index i) {
      for (std::size_t d = 0; d < i.size(); ++d) i[d] += ranges[d].start;
      return x.at(i);
    }));
  }
  return all;
}

}  // namespace lockstep::sharding::testing
