// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/program/primitive.h"
#include "lockstep/program/primitives/convolution.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/reverse.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/sort.h"
#include "lockstep/program/primitives/window.h"

/// The operations of the reference evaluator (reference_evaluator_test.h) at one position: slow and simple,
/// with every element as a double.
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

inline Tensor dot(const Tensor& x, const Tensor& y, const ir::DotGeneralParams& p, const Shape& shape) {
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

/// Evaluates one equation at one position.
inline Tensor evaluate_local(const ir::Equation& e, const std::vector<Tensor>& in, const Shape& shape) {
  const std::string& op = e.primitive->name;
  using Binary = double (*)(double, double);
  static const std::map<std::string, Binary> kBinary = {
      {"add", plus},
      {"sub", [](double a, double b) { return a - b; }},
      {"mul", [](double a, double b) { return a * b; }},
      {"div", [](double a, double b) { return a / b; }},
      {"rem", [](double a, double b) { return std::fmod(a, b); }},
      {"max", larger},
      {"min", smaller},
      {"gt", [](double a, double b) { return double(a > b); }},
      {"lt", [](double a, double b) { return double(a < b); }},
      {"eq", [](double a, double b) { return double(a == b); }},
      {"ne", [](double a, double b) { return double(a != b); }},
      {"ge", [](double a, double b) { return double(a >= b); }},
      {"logical_and", [](double a, double b) { return double(a != 0 && b != 0); }},
      {"logical_or", [](double a, double b) { return double(a != 0 || b != 0); }}};
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
    const ir::Scalar& value = e.params.as<ir::FullParams>().value;
    return make(shape, [&](const Index&) { return value.real; });
  }
  if (op == "iota")
    return make(shape,
                [&](const Index& i) { return double(at(i, e.params.as<ir::IotaParams>().dimension)); });
  if (op == "dot_general") return dot(in[0], in[1], e.params.as<ir::DotGeneralParams>(), shape);
  if (op == "reduce_sum") return reduce(in[0], e.params.as<ir::ReduceParams>().axes, shape, 0, plus);
  if (op == "reduce_max")
    return reduce(in[0], e.params.as<ir::ReduceParams>().axes, shape, -INFINITY, larger);
  if (op == "reduce_min")
    return reduce(in[0], e.params.as<ir::ReduceParams>().axes, shape, INFINITY, smaller);
  if (op == "reshape") return {shape, in[0].data};
  if (op == "broadcast_in_dim") {
    const Index& dims = e.params.as<ir::BroadcastInDimParams>().broadcast_dimensions;
    return make(shape, [&](const Index& i) {
      Index from;
      for (std::size_t d = 0; d < dims.size(); ++d) from.push_back(in[0].shape[d] == 1 ? 0 : at(i, dims[d]));
      return in[0].at(from);
    });
  }
  if (op == "transpose") {
    const Index& permutation = e.params.as<ir::TransposeParams>().permutation;
    return make(shape, [&](const Index& i) {
      Index from(i.size());
      for (std::size_t d = 0; d < i.size(); ++d) from[static_cast<std::size_t>(permutation[d])] = i[d];
      return in[0].at(from);
    });
  }
  if (op == "sort") {
    const auto& p = e.params.as<ir::SortParams>();
    const auto along = static_cast<std::size_t>(p.dimension);
    return make(shape, [&](Index i) {
      const auto place = static_cast<std::size_t>(i[along]);
      std::vector<double> line;
      for (i[along] = 0; i[along] < in[0].shape[along]; ++i[along]) line.push_back(in[0].at(i));
      std::ranges::sort(line);
      return p.descending ? line[line.size() - 1 - place] : line[place];
    });
  }
  if (op == "slice") {
    const auto& p = e.params.as<ir::SliceParams>();
    return make(shape, [&](const Index& i) {
      Index from(i.size());
      for (std::size_t d = 0; d < i.size(); ++d) from[d] = p.start_indices[d] + i[d] * p.strides[d];
      return in[0].at(from);
    });
  }
  if (op == "pad") {
    const auto& p = e.params.as<ir::PadParams>();
    return make(shape, [&](Index i) {
      for (std::size_t d = 0; d < i.size(); ++d) {
        i[d] -= p.low[d];
        const std::int64_t step = p.interior[d] + 1;
        if (i[d] < 0 || i[d] % step != 0 || i[d] / step >= in[0].shape[d]) return in[1].data[0];
        i[d] /= step;
      }
      return in[0].at(i);
    });
  }
  if (op == "concatenate") {
    const auto dim = static_cast<std::size_t>(e.params.as<ir::ConcatenateParams>().dimension);
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
  if (op == "dynamic_update_slice") {
    return make(shape, [&](const Index& i) {
      Index within = i;
      for (std::size_t d = 0; d < i.size(); ++d) {
        within[d] -= std::clamp<std::int64_t>(static_cast<std::int64_t>(in[d + 2].data[0]), 0,
                                              shape[d] - in[1].shape[d]);
        if (within[d] < 0 || within[d] >= in[1].shape[d]) return in[0].at(i);
      }
      return in[1].at(within);
    });
  }
  if (op == "rev") {
    return make(shape, [&](Index i) {
      for (std::int64_t d : e.params.as<ir::RevParams>().dimensions) {
        const auto at = static_cast<std::size_t>(d);
        i[at] = shape[at] - 1 - i[at];
      }
      return in[0].at(i);
    });
  }
  if (op == "rotate") {
    const auto& [dimension, by] = e.params.as<ir::RotateParams>();
    return make(shape, [&, d = static_cast<std::size_t>(dimension), n = by](Index i) {
      i[d] = (i[d] + n) % shape[d];
      return in[0].at(i);
    });
  }
  if (op == "cumsum" || op == "cummax") {
    const auto& p = e.params.as<ir::CumulativeParams>();
    const auto d = static_cast<std::size_t>(p.axis);
    return make(shape, [&](Index i) {
      double all = in[0].at(i);
      while (p.reverse ? ++i[d] < shape[d] : --i[d] >= 0)
        all = op == "cumsum" ? all + in[0].at(i) : std::max(all, in[0].at(i));
      return all;
    });
  }
  if (op == "argmax") {
    const auto d = static_cast<std::size_t>(e.params.as<ir::ArgParams>().axis);
    return make(shape, [&](Index i) {
      i.insert(i.begin() + static_cast<std::ptrdiff_t>(d), 0);
      Index best = i;
      for (; i[d] < in[0].shape[d]; ++i[d])
        if (in[0].at(i) > in[0].at(best)) best = i;
      return static_cast<double>(best[d]);
    });
  }
  if (op == "reduce_window_sum" || op == "reduce_window_max") {
    const auto& p = e.params.as<ir::WindowParams>();
    const bool sums = op == "reduce_window_sum";
    return make(shape, [&](const Index& i) {
      double all = sums ? 0 : -INFINITY;
      for_each(p.window_dimensions, [&](const Index& k) {
        Index from(i.size());
        for (std::size_t d = 0; d < i.size(); ++d) {
          const std::int64_t place =
              i[d] * p.window_strides[d] + k[d] * p.window_dilation[d] - p.padding_low[d];
          from[d] = place / p.base_dilation[d];
          if (place < 0 || place % p.base_dilation[d] != 0 || from[d] >= in[0].shape[d]) return;
        }
        all = sums ? all + in[0].at(from) : std::max(all, in[0].at(from));
      });
      return all;
    });
  }
  if (op == "conv_general_dilated") {  // with one spatial dimension
    const auto& p = e.params.as<ir::ConvParams>();
    const auto at = [](const std::vector<std::int64_t>& spec, std::size_t k) {
      return static_cast<std::size_t>(spec[k]);
    };
    return make(shape, [&](const Index& i) {
      double sum = 0;
      Index x(3), w(3);
      x[at(p.lhs_spec, 0)] = i[at(p.out_spec, 0)];
      w[at(p.rhs_spec, 0)] = i[at(p.out_spec, 1)];
      for (std::int64_t f = 0; f < in[1].shape[at(p.rhs_spec, 1)]; ++f) {
        for (std::int64_t k = 0; k < in[1].shape[at(p.rhs_spec, 2)]; ++k) {
          const std::int64_t place =
              i[at(p.out_spec, 2)] * p.window_strides[0] + k * p.rhs_dilation[0] - p.padding_low[0];
          x[at(p.lhs_spec, 1)] = w[at(p.rhs_spec, 1)] = f;
          x[at(p.lhs_spec, 2)] = place / p.lhs_dilation[0];
          w[at(p.rhs_spec, 2)] = k;
          if (place >= 0 && place % p.lhs_dilation[0] == 0 &&
              x[at(p.lhs_spec, 2)] < in[0].shape[at(p.lhs_spec, 2)])
            sum += in[0].at(x) * in[1].at(w);
        }
      }
      return sum;
    });
  }
  ADD_FAILURE() << "the evaluator does not know " << op;
  return make(shape, [](const Index&) { return 0.0; });
}

}  // namespace lockstep::sharding::testing
