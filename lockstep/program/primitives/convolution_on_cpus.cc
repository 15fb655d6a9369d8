// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/convolution_on_cpus.h"

#include <algorithm>

#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir {
namespace {

using Integers = std::vector<std::int64_t>;

/// One spatial dimension of a convolution.
struct Spatial {
  std::size_t lhs, rhs;               ///< where it is in the operands
  std::int64_t size, kernel, result;  ///< numbers of elements
  std::int64_t stride, low, high, lhs_dilation, rhs_dilation;

  /// Each element of the result is made from one of lhs.
  bool is_pointwise() const { return kernel == 1; }
  std::int64_t end() const { return -low + (kernel - 1) * rhs_dilation + 1; }
  /// The elements of lhs -low, -low + rhs_dilation, ... before end() are summed.
  bool is_summed() const { return result == 1 && lhs_dilation == 1 && low <= 0 && end() <= size; }
  /// The elements do not stand where those of lhs do, apart from the stride.
  bool is_moved() const { return is_pointwise() && (low != 0 || high != 0 || lhs_dilation != 1); }
};

Spatial spatial(std::size_t i, const Shape& lhs, const Shape& rhs, const ConvParams& p) {
  const auto l = static_cast<std::size_t>(p.lhs_spec[i + 2]), r = static_cast<std::size_t>(p.rhs_spec[i + 2]);
  return {l,
          r,
          lhs[l],
          rhs[r],
          0,
          p.window_strides[i],
          p.padding_low[i],
          p.padding_high[i],
          p.lhs_dilation[i],
          p.rhs_dilation[i]};
}

std::vector<Spatial> spatials(const Shape& lhs, const Shape& rhs, const Shape& result, const ConvParams& p) {
  std::vector<Spatial> all;
  for (std::size_t i = 0; i < p.window_strides.size(); ++i) {
    all.push_back(spatial(i, lhs, rhs, p));
    all.back().result = result[static_cast<std::size_t>(p.out_spec[i + 2])];
  }
  return all;
}

bool has_elements(const Shape& shape) {
  return std::ranges::all_of(shape, [](auto n) { return n > 0; });
}

/// What a dimension of an operand or the result means: its place in the spec.
std::int64_t meaning(const Integers& spec, std::size_t dimension) {
  return std::ranges::find(spec, static_cast<std::int64_t>(dimension)) - spec.begin();
}

bool is_among(const Integers& dimensions, std::size_t d) {
  return std::ranges::find(dimensions, static_cast<std::int64_t>(d)) != dimensions.end();
}

/// The first `count` dimensions as one, the others as one.
Value as_matrix(const Value& x, std::size_t count) {
  std::int64_t rows = 1;
  for (std::size_t d = 0; d < count; ++d) rows *= x.aval().shape[d];
  return lax::reshape(x, {rows, x.aval().num_elements() / rows});
}

/// The product, with one dimension in place of several as far as they are in the same order in memory: XLA
/// moves the elements of several dimensions before it multiplies.
Value product_of(const Value& x, const Value& y, DotGeneralParams product) {
  const std::size_t rank = x.aval().shape.size(), count = product.lhs_contracting.size();
  bool leading = product.lhs_contracting.size() < rank;
  for (std::size_t i = 0; i < count; ++i)
    leading = leading && product.lhs_contracting[i] == product.rhs_contracting[i] &&
              product.lhs_contracting[i] < static_cast<std::int64_t>(count);
  if (!leading) return lax::dot_general(x, y, std::move(product));
  product.lhs_contracting = product.rhs_contracting = {0};
  return lax::dot_general(as_matrix(x, count), as_matrix(y, count), std::move(product));
}

}  // namespace

bool is_product(const Shape& lhs, const Shape& rhs, const Shape& result, const ConvParams& p) {
  return p.feature_group_count == 1 && p.batch_group_count == 1 && has_elements(lhs) && has_elements(rhs) &&
         has_elements(result) && std::ranges::all_of(spatials(lhs, rhs, result, p), [](const Spatial& s) {
           return s.is_pointwise() || s.is_summed();
         });
}

Value as_product(const Value& lhs, const Value& rhs, const Shape& result, const ConvParams& p) {
  const std::vector<Spatial> dims = spatials(lhs.aval().shape, rhs.aval().shape, result, p);
  const std::size_t rank = result.size();
  DotGeneralParams product{.lhs_contracting = {p.lhs_spec[1]},
                           .rhs_contracting = {p.rhs_spec[1]},
                           .preferred_element_type = p.preferred_element_type,
                           .precision = p.precision};
  Integers start(rank, 0), limit = lhs.aval().shape, stride(rank, 1);
  Integers low(rank, 0), high(rank, 0), interior(rank, 0), stride_after(rank, 1);  // of the result
  Shape before = result;  // of the result before it is padded and strided
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const Spatial& s = dims[i];
    const auto out = static_cast<std::size_t>(p.out_spec[i + 2]);
    if (!s.is_pointwise()) {
      start[s.lhs] = -s.low, limit[s.lhs] = s.end(), stride[s.lhs] = s.rhs_dilation;
      product.lhs_contracting.push_back(static_cast<std::int64_t>(s.lhs));
      product.rhs_contracting.push_back(static_cast<std::int64_t>(s.rhs));
    } else if (s.is_moved()) {
      before[out] = s.size;
      low[out] = s.low, high[out] = s.high, interior[out] = s.lhs_dilation - 1, stride_after[out] = s.stride;
    } else {
      stride[s.lhs] = s.stride;
    }
  }
  const Value x = lax::slice(lhs, start, limit, stride);
  // The remaining dimensions of lhs, then those of rhs, of which the spatial ones have one element.
  Integers there;
  Shape shape;
  for (std::size_t d = 0; d < rank; ++d) {
    if (is_among(product.lhs_contracting, d)) continue;
    there.push_back(meaning(p.lhs_spec, d));
    shape.push_back(x.aval().shape[d]);
  }
  Value y = product_of(x, rhs, std::move(product));
  there.push_back(1);
  shape.push_back(rhs.aval().shape[static_cast<std::size_t>(p.rhs_spec[0])]);
  y = lax::reshape(y, shape);
  Integers order;
  for (std::size_t d = 0; d < rank; ++d) {
    const auto at = std::ranges::find(there, meaning(p.out_spec, d));
    if (at != there.end()) order.push_back(at - there.begin());
  }
  y = lax::reshape(lax::transpose(y, order), before);
  if (std::ranges::none_of(dims, &Spatial::is_moved)) return y;
  y = lax::pad(y, rules::zeros(y, {y.aval().dtype, {}}), low, high, interior);
  return lax::slice(y, Integers(rank, 0), y.aval().shape, stride_after);
}

std::optional<EarlyPadding> early_padding(const Shape& lhs, const Shape& rhs, const ConvParams& p) {
  EarlyPadding padding{Integers(lhs.size(), 0), Integers(lhs.size(), 0)};
  bool any = false;
  for (std::size_t i = 0; i < p.window_strides.size(); ++i) {
    const Spatial s = spatial(i, lhs, rhs, p);
    if (s.kernel <= s.size || s.lhs_dilation != 1) continue;
    padding.low[s.lhs] = s.low, padding.high[s.lhs] = s.high;
    any = true;
  }
  if (!any) return std::nullopt;
  return padding;
}

}  // namespace lockstep::ir
