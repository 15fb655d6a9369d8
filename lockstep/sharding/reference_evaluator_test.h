#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/program/axis_env.h"
#include "lockstep/program/primitive.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/shape.h"

/// A slow and plain evaluator of programs, for tests: all positions of a mesh in lock step, every element a
/// double.
namespace lockstep::sharding::testing {

using Index = std::vector<std::int64_t>;

struct Tensor {
  Shape shape;
  std::vector<double> data;  // row-major
  double at(const Index& index) const {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) offset = offset * shape[d] + index[d];
    return data[static_cast<std::size_t>(offset)];
  }
  bool operator==(const Tensor&) const = default;
};

inline void for_each(const Shape& shape, const std::function<void(const Index&)>& visit) {
  const std::int64_t n = num_elements(shape);
  Index index(shape.size());
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t rest = i;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) index[d] = rest % shape[d];
    visit(index);
  }
}

inline Tensor make(const Shape& shape, const std::function<double(const Index&)>& element) {
  Tensor t{shape, {}};
  for_each(shape, [&](const Index& index) { t.data.push_back(element(index)); });
  return t;
}

inline Index dims_but(std::size_t rank, const Index& a, const Index& b) {
  Index rest;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(rank); ++d) {
    if (!std::ranges::count(a, d) && !std::ranges::count(b, d)) rest.push_back(d);
  }
  return rest;
}

inline Tensor dot(const Tensor& x, const Tensor& y, const DotGeneralParams& p, const Shape& shape) {
  const Index x_free = dims_but(x.shape.size(), p.lhs_contracting, p.lhs_batch);
  const Index y_free = dims_but(y.shape.size(), p.rhs_contracting, p.rhs_batch);
  Shape contracted;
  for (std::int64_t d : p.lhs_contracting) contracted.push_back(x.shape[static_cast<std::size_t>(d)]);
  return make(shape, [&](const Index& out) {
    Index xi(x.shape.size()), yi(y.shape.size());
    auto set = [](Index& index, std::int64_t d, std::int64_t value) {
      index[static_cast<std::size_t>(d)] = value;
    };
    std::size_t o = 0;
    for (std::size_t i = 0; i < p.lhs_batch.size(); ++i, ++o) {
      set(xi, p.lhs_batch[i], out[o]);
      set(yi, p.rhs_batch[i], out[o]);
    }
    for (std::int64_t d : x_free) set(xi, d, out[o++]);
    for (std::int64_t d : y_free) set(yi, d, out[o++]);
    double sum = 0;
    for_each(contracted, [&](const Index& k) {
      for (std::size_t i = 0; i < k.size(); ++i) {
        set(xi, p.lhs_contracting[i], k[i]);
        set(yi, p.rhs_contracting[i], k[i]);
      }
      sum += x.at(xi) * y.at(yi);
    });
    return sum;
  });
}

inline Tensor reduce(const Tensor& x, const Index& axes, const Shape& shape, double first,
                     double (*join)(double, double)) {
  const Index kept = dims_but(x.shape.size(), axes, {});
  Shape reduced;
  for (std::int64_t d : axes) reduced.push_back(x.shape[static_cast<std::size_t>(d)]);
  return make(shape, [&](const Index& out) {
    Index index(x.shape.size());
    for (std::size_t i = 0; i < kept.size(); ++i) index[static_cast<std::size_t>(kept[i])] = out[i];
    double all = first;
    for_each(reduced, [&](const Index& k) {
      for (std::size_t i = 0; i < k.size(); ++i) index[static_cast<std::size_t>(axes[i])] = k[i];
      all = join(all, x.at(index));
    });
    return all;
  });
}

inline double plus(double a, double b) { return a + b; }
inline double larger(double a, double b) { return std::max(a, b); }
inline double smaller(double a, double b) { return std::min(a, b); }

/// One equation on one position.
inline Tensor evaluate_local(const Equation& e, const std::vector<Tensor>& in, const Shape& shape) {
  const std::string& op = e.primitive->name;
  using Binary = double (*)(double, double);
  static const std::map<std::string, Binary> kBinary = {
      {"add", plus},
      {"sub", [](double a, double b) { return a - b; }},
      {"mul", [](double a, double b) { return a * b; }},
      {"div", [](double a, double b) { return a / b; }},
      {"max", larger},
      {"min", smaller},
      {"gt", [](double a, double b) { return double(a > b); }},
      {"lt", [](double a, double b) { return double(a < b); }},
      {"eq", [](double a, double b) { return double(a == b); }}};
  static const std::map<std::string, double (*)(double)> kUnary = {
      {"neg", [](double a) { return -a; }},
      {"sign", [](double a) { return double((a > 0) - (a < 0)); }},
      {"abs", [](double a) { return std::fabs(a); }},
      {"tanh", [](double a) { return std::tanh(a); }},
      {"sharding_constraint", [](double a) { return a; }},
      {"pvary", [](double a) { return a; }},
      {"convert_element_type", [](double a) { return a; }}};
  if (auto f = kBinary.find(op); f != kBinary.end())
    return make(shape, [&](const Index& i) { return f->second(in[0].at(i), in[1].at(i)); });
  if (auto f = kUnary.find(op); f != kUnary.end())
    return make(shape, [&](const Index& i) { return f->second(in[0].at(i)); });
  auto at = [](const Index& index, std::int64_t d) { return index[static_cast<std::size_t>(d)]; };
  if (op == "select")
    return make(shape, [&](const Index& i) { return in[0].at(i) != 0 ? in[1].at(i) : in[2].at(i); });
  if (op == "full") {
    const Scalar& value = e.params.as<FullParams>().value;
    return make(shape, [&](const Index&) { return value.real; });
  }
  if (op == "iota")
    return make(shape, [&](const Index& i) { return double(at(i, e.params.as<IotaParams>().dimension)); });
  if (op == "dot_general") return dot(in[0], in[1], e.params.as<DotGeneralParams>(), shape);
  if (op == "reduce_sum") return reduce(in[0], e.params.as<ReduceParams>().axes, shape, 0, plus);
  if (op == "reduce_max") return reduce(in[0], e.params.as<ReduceParams>().axes, shape, -INFINITY, larger);
  if (op == "reduce_min") return reduce(in[0], e.params.as<ReduceParams>().axes, shape, INFINITY, smaller);
  if (op == "reshape") return {shape, in[0].data};
  if (op == "broadcast_in_dim") {
    const Index& dims = e.params.as<BroadcastInDimParams>().broadcast_dimensions;
    return make(shape, [&](const Index& i) {
      Index from;
      for (std::size_t d = 0; d < dims.size(); ++d) from.push_back(in[0].shape[d] == 1 ? 0 : at(i, dims[d]));
      return in[0].at(from);
    });
  }
  if (op == "transpose") {
    const Index& permutation = e.params.as<TransposeParams>().permutation;
    return make(shape, [&](const Index& i) {
      Index from(i.size());
      for (std::size_t d = 0; d < i.size(); ++d) from[static_cast<std::size_t>(permutation[d])] = i[d];
      return in[0].at(from);
    });
  }
  if (op == "slice") {
    const auto& p = e.params.as<SliceParams>();
    return make(shape, [&](const Index& i) {
      Index from(i.size());
      for (std::size_t d = 0; d < i.size(); ++d) from[d] = p.start_indices[d] + i[d] * p.strides[d];
      return in[0].at(from);
    });
  }
  if (op == "pad") {
    const auto& p = e.params.as<PadParams>();
    return make(shape, [&](Index i) {
      for (std::size_t d = 0; d < i.size(); ++d) {
        EXPECT_EQ(p.interior[d], 0);
        i[d] -= p.low[d];
        if (i[d] < 0 || i[d] >= in[0].shape[d]) return in[1].data[0];
      }
      return in[0].at(i);
    });
  }
  if (op == "concatenate") {
    const auto dim = static_cast<std::size_t>(e.params.as<ConcatenateParams>().dimension);
    return make(shape, [&](Index i) {
      std::size_t part = 0;
      for (; i[dim] >= in[part].shape[dim]; ++part) i[dim] -= in[part].shape[dim];
      return in[part].at(i);
    });
  }
  if (op == "dynamic_slice") {
    return make(shape, [&](Index i) {
      for (std::size_t d = 0; d < i.size(); ++d)
        i[d] += std::clamp<std::int64_t>(static_cast<std::int64_t>(in[d + 1].data[0]), 0,
                                         in[0].shape[d] - shape[d]);
      return in[0].at(i);
    });
  }
  ADD_FAILURE() << "the evaluator does not know " << op;
  return make(shape, [](const Index&) { return 0.0; });
}

/// A collective: what the member of rank r gets of what the group gives.
inline Tensor evaluate_collective(const Equation& e, const std::vector<const Tensor*>& given,
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
    return gathered(static_cast<std::size_t>(e.params.as<GatherParams>().dimension), 0, false);
  if (op == "all_to_all") {
    const auto& p = e.params.as<AllToAllParams>();
    return gathered(static_cast<std::size_t>(p.concat_dimension), static_cast<std::size_t>(p.split_dimension),
                    true);
  }
  EXPECT_EQ(op, "psum_scatter");
  const auto dim = static_cast<std::size_t>(e.params.as<GatherParams>().dimension);
  Tensor sum = joined(plus);
  Shape shape = sum.shape;
  shape[dim] /= n;
  return make(shape, [&](Index i) {
    i[dim] += r * shape[dim];
    return sum.at(i);
  });
}

inline std::vector<std::string> collective_axes(const Equation& e) {
  const std::string& op = e.primitive->name;
  if (op == "psum" || op == "pmax" || op == "pmin") return e.params.as<AxesParams>().axes;
  if (op == "all_gather" || op == "psum_scatter") return e.params.as<GatherParams>().axes;
  if (op == "all_to_all") return e.params.as<AllToAllParams>().axes;
  return {};
}

/// What to_local and to_global do with the values at all positions; a global value is whole at each of them.
inline void evaluate_placement(const Equation& e, const AxisEnv& axes, const std::vector<Tensor>& in,
                               std::vector<Tensor>& out, const Shape& shape) {
  const auto& placement = e.params.as<PlacementParams>();
  const bool enters = e.primitive == &to_local_p();
  const Shape& part = enters ? shape : in[0].shape;
  std::vector<Index> starts(in.size(), Index(part.size()));  // of each position's part
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

/// Runs a program whose equations have one result each. `inputs[i][p]` is input i at position p; so are the
/// outputs. A value of a program that was not partitioned is whole at every position.
inline std::vector<std::vector<Tensor>> evaluate(const Program& program, const AxisEnv& axes,
                                                 const std::vector<std::vector<Tensor>>& inputs) {
  const auto positions = static_cast<std::size_t>(axes.num_positions());
  std::vector<std::vector<Tensor>> values(program.variables.size(), std::vector<Tensor>(positions));
  auto of = [&](Var var) -> std::vector<Tensor>& { return values[static_cast<std::size_t>(var)]; };
  for (std::size_t i = 0; i < inputs.size(); ++i) of(program.inputs[i]) = inputs[i];
  for (const Equation& e : program.equations) {
    std::vector<Tensor>& out = of(e.outputs[0]);
    if (e.primitive == &to_local_p() || e.primitive == &to_global_p()) {
      evaluate_placement(e, axes, of(e.inputs[0]), out, program.aval(e.outputs[0]).shape);
    } else if (e.primitive == &axis_index_p()) {
      for (const auto& group : axes.groups(e.params.as<AxesParams>().axes)) {
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
        for (Var var : e.inputs) operands.push_back(of(var)[p]);
        out[p] = evaluate_local(e, operands, program.aval(e.outputs[0]).shape);
      }
    }
    for (const Tensor& t : out) EXPECT_EQ(t.shape, program.aval(e.outputs[0]).shape) << e.primitive->name;
  }
  std::vector<std::vector<Tensor>> outputs;
  for (Var var : program.outputs) outputs.push_back(of(var));
  return outputs;
}

}  // namespace lockstep::sharding::testing
