// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/convolution.h"

#include <algorithm>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/indexing.h"
#include "lockstep/ops/rearrange.h"
#include "lockstep/ops/shape.h"
#include "lockstep/program/primitives/convolution.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::nn {
namespace {

using ops::Tracers;
using Integers = std::vector<std::int64_t>;

/// The position of each character of `order` in the spec; throws ShapeError unless the spec has exactly
/// these.
Integers places(const std::string& spec, const std::string& order, const Aval& of) {
  Integers dims;
  for (char c : order) {
    const auto at = spec.find(c);
    if (at != spec.npos) dims.push_back(static_cast<std::int64_t>(at));
  }
  std::string sorted = spec, expected = order;
  std::ranges::sort(sorted);
  std::ranges::sort(expected);
  if (sorted != expected || dims.size() != of.shape.size()) {
    fail<ShapeError>(
        "[conv_general_dilated] dimension numbers \"{}\" do not name the dimensions of {}: expected the "
        "letters \"{}\", each once{}",
        spec, to_string(of), order, ops::at());
  }
  return dims;
}

Integers spatial(const Shape& shape, const Integers& dims) {
  Integers sizes;
  for (std::size_t i = 2; i < dims.size(); ++i) sizes.push_back(shape[static_cast<std::size_t>(dims[i])]);
  return sizes;
}

Integers ones_if_empty(std::string_view operation, const Integers& given, std::size_t count,
                       std::string_view what) {
  if (given.empty()) return Integers(count, 1);
  if (given.size() != count) {
    fail<ShapeError>("[{}] expected a {} for each of the {} spatial dimensions, got {}{}", operation, what,
                     count, to_string(given), ops::at());
  }
  return given;
}

Array convolved(const std::string& name, const Operand& lhs, const Operand& rhs, const ConvOptions& options) {
  CallSiteScope here(lhs.site());
  const ElementType types[] = {lhs.type(), rhs.type()};
  const ElementType type = promote(name, types);
  const Aval left = lhs.aval(), right = rhs.aval();
  if (left.rank() < 2 || right.rank() != left.rank()) {
    fail<ShapeError>("[{}] expected an operand and kernels of the same rank, at least 2, got {} and {}{}",
                     name, to_string(left), to_string(right), ops::at());
  }
  const std::size_t count = left.shape.size() - 2;
  static const std::string kSpatial = "DHW";
  std::string letters = count <= 3 ? kSpatial.substr(3 - count) : "";
  for (std::size_t i = 0; count > 3 && i < count; ++i) letters += static_cast<char>('0' + i);
  std::array<std::string, 3> numbers = options.dimension_numbers;
  if (numbers[0].empty()) {
    numbers = {"NC" + letters, "OI" + letters, "NC" + letters};
  } else {
    letters.clear();
    for (char c : numbers[1]) {
      if (c != 'O' && c != 'I') letters += c;
    }
  }
  ir::ConvParams p;
  p.lhs_spec = places(numbers[0], "NC" + letters, left);
  p.rhs_spec = places(numbers[1], "OI" + letters, right);
  p.out_spec = places(numbers[2], "NC" + letters, left);
  p.window_strides = ones_if_empty(name, options.window_strides, count, "stride");
  p.lhs_dilation = ones_if_empty(name, options.lhs_dilation, count, "dilation");
  p.rhs_dilation = ones_if_empty(name, options.rhs_dilation, count, "dilation");
  Integers windows = spatial(right.shape, p.rhs_spec);
  for (std::size_t i = 0; i < count; ++i) windows[i] = ir::dilated(windows[i], p.rhs_dilation[i]);
  for (const auto& [low, high] :
       options.padding.of(name, spatial(left.shape, p.lhs_spec), windows, p.window_strides)) {
    p.padding_low.push_back(low);
    p.padding_high.push_back(high);
  }
  p.feature_group_count = options.feature_group_count;
  p.batch_group_count = options.batch_group_count;
  p.preferred_element_type = options.preferred_element_type;
  p.precision = ir::precision_text(options.precision);
  return ops::run(name, ir::OpParams::of(p).text(), {lhs.as_array(type), rhs.as_array(type)}, [&](Tracers t) {
    return ir::lax::conv_general_dilated(ops::convert(t[0], type), ops::convert(t[1], type), p);
  });
}

/// The spatial dimensions of x.
std::vector<std::size_t> spatial_dims(const std::string& name, const Operand& x, const std::string& numbers) {
  const std::size_t rank = x.shape().size();
  std::vector<std::size_t> dims;
  if (numbers.empty()) {
    for (std::size_t d = 1; d + 1 < rank; ++d) dims.push_back(d);
    return dims;
  }
  std::string letters = numbers;
  std::ranges::sort(letters);
  const bool distinct = std::ranges::adjacent_find(letters) == letters.end();
  if (numbers.size() != rank || !distinct || numbers.find('N') == numbers.npos ||
      numbers.find('C') == numbers.npos) {
    fail<ShapeError>(
        "[{}] dimension numbers \"{}\" do not name the dimensions of {}: expected N, C and another letter "
        "for "
        "each spatial dimension, each once{}",
        name, numbers, to_string(x.aval()), ops::at());
  }
  for (std::size_t d = 0; d < rank; ++d) {
    if (numbers[d] != 'N' && numbers[d] != 'C') dims.push_back(d);
  }
  return dims;
}

/// The window, strides and padding with an entry for each dimension of x.
struct Pool {
  Integers window, strides;
  Padding padding;
};
Pool pool_of(const std::string& name, const Operand& x, const Integers& window, const PoolOptions& options) {
  const Shape& shape = x.shape();
  if (shape.size() != window.size() + 2) {
    fail<ShapeError>(
        "[{}] expected a window size for each spatial dimension of x, [batch, spatial…, features], got {} of "
        "{}{}",
        name, to_string(window), to_string(x.aval()), ops::at());
  }
  const std::vector<std::size_t> dims = spatial_dims(name, x, options.dimension_numbers);
  const Integers strides = ones_if_empty(name, options.strides, window.size(), "stride");
  Integers sizes;
  for (std::size_t d : dims) sizes.push_back(shape[d]);
  const Padding padding = options.padding.of(name, sizes, window, strides);
  Pool pool{Integers(shape.size(), 1), Integers(shape.size(), 1), Padding(shape.size())};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    pool.window[dims[i]] = window[i];
    pool.strides[dims[i]] = strides[i];
    pool.padding[dims[i]] = padding[i];
  }
  return pool;
}

std::string key_of(const Pool& pool) {
  std::string key = to_string(pool.window) + to_string(pool.strides);
  for (const auto& [low, high] : pool.padding) key += fmt::format(" {},{}", low, high);
  return key;
}

Array extreme_pool(const std::string& name, const ir::Primitive& kind, const Operand& x,
                   const Integers& window, const PoolOptions& options) {
  CallSiteScope here(x.site());
  const Pool pool = pool_of(name, x, window, options);
  return ops::run(name, key_of(pool), {x.as_array()}, [&](Tracers t) {
    return ir::lax::reduce_window(kind, t[0], pool.window, pool.strides, pool.padding);
  });
}

}  // namespace

Padding ConvPadding::of(std::string_view operation, const Shape& sizes, const Integers& windows,
                        const Integers& strides) const {
  if (!name_.empty()) {
    try {
      return ir::named_padding(name_, sizes, windows, strides);
    } catch (const ShapeError& error) {
      fail<ShapeError>("[{}] {}{}", operation, error.what(), ops::at());
    }
  }
  if (sizes_.size() != sizes.size()) {
    fail<ShapeError>("[{}] expected the padding before and after each of the {} spatial dimensions, got {}{}",
                     operation, sizes.size(), sizes_.size(), ops::at());
  }
  return sizes_;
}

std::string ConvPadding::to_string() const {
  std::string text = name_;
  for (const auto& [low, high] : sizes_) text += fmt::format("({},{})", low, high);
  return text;
}

Array conv_general_dilated(const Operand& lhs, const Operand& rhs, ConvOptions options) {
  return convolved("conv_general_dilated", lhs, rhs, options);
}

Array conv(const Operand& x, const Operand& kernel, ConvOptions options) {
  CallSiteScope here(x.site());
  if (!options.dimension_numbers[0].empty())
    fail<ShapeError>(
        "[conv] expected no dimension numbers, because features are always last; give them to "
        "conv_general_dilated{}",
        ops::at());
  std::string letters;
  for (std::size_t i = 2; i < x.shape().size(); ++i) letters += static_cast<char>('0' + i);
  options.dimension_numbers = {"N" + letters + "C", letters + "IO", "N" + letters + "C"};
  return convolved("conv", x, kernel, options);
}

Array conv_transpose(const Operand& x, const Operand& kernel, ConvTransposeOptions options) {
  CallSiteScope here(x.site());
  const std::size_t rank = kernel.shape().size();
  if (rank < 2 || x.shape().size() != rank) {
    fail<ShapeError>(
        "[conv_transpose] expected an operand and kernels of the same rank, at least 2, got {} and {}{}",
        to_string(x.aval()), to_string(kernel.aval()), ops::at());
  }
  const std::size_t count = rank - 2;
  const Integers strides = ones_if_empty("conv_transpose", options.strides, count, "stride"),
                 dilation = ones_if_empty("conv_transpose", options.rhs_dilation, count, "dilation");
  const std::string& name = options.padding.name();
  Padding padding;
  if (name.empty()) {
    padding = options.padding.of("conv_transpose", Integers(count), Integers(count), strides);
  } else if (name == "SAME" || name == "VALID") {
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t k = ir::dilated(kernel.shape()[i], dilation[i]), s = strides[i];
      const std::int64_t all = k + s - 2 + (name == "VALID" ? std::max<std::int64_t>(k - s, 0) : 0);
      const std::int64_t low = name == "VALID" || s > k - 1 ? k - 1 : (all + 1) / 2;
      padding.emplace_back(low, all - low);
    }
  } else {
    fail<ShapeError>("[conv_transpose] expected the padding SAME, VALID or numbers, got \"{}\"{}", name,
                     ops::at());
  }
  Array turned = kernel.as_array();
  if (options.transpose_kernel) {
    Integers axes(count);
    for (std::size_t i = 0; i < count; ++i) axes[i] = static_cast<std::int64_t>(i);
    turned = swapaxes(count == 0 ? turned : flip(turned, axes), -1, -2);
  }
  return conv(x, turned,
              {.window_strides = Integers(count, 1),
               .padding = ConvPadding(padding),
               .lhs_dilation = strides,
               .rhs_dilation = dilation});
}

Array max_pool(const Operand& x, const Integers& window, PoolOptions options) {
  return extreme_pool("max_pool", ir::reduce_window_max_p(), x, window, options);
}
Array min_pool(const Operand& x, const Integers& window, PoolOptions options) {
  return extreme_pool("min_pool", ir::reduce_window_min_p(), x, window, options);
}

Array avg_pool(const Operand& x, const Integers& window, PoolOptions options) {
  CallSiteScope here(x.site());
  const Pool pool = pool_of("avg_pool", x, window, options);
  const ElementType type = to_inexact(x.type());
  return ops::run("avg_pool", key_of(pool) + (options.count_include_pad ? "" : " within"), {x.as_array()},
                  [&](Tracers t) {
                    auto summed = [&](const Array& values) {
                      return ir::lax::reduce_window(ir::reduce_window_sum_p(), values, pool.window,
                                                    pool.strides, pool.padding);
                    };
                    const Array sum = summed(ops::convert(t[0], {type.dtype, false}));
                    const Array count =
                        options.count_include_pad
                            ? ir::lax::full_like(sum, static_cast<double>(num_elements(pool.window)))
                            : summed(ir::lax::full(sum, ir::Scalar::of(1.0), type.dtype, t[0].shape()));
                    return ir::lax::div(sum, count);
                  });
}

Array embedding(const Operand& table, const Operand& indices) {
  CallSiteScope here(table.site());
  if (table.shape().size() != 2) {
    fail<ShapeError>("[embedding] expected a table of two dimensions, got {}{}", to_string(table.aval()),
                     ops::at());
  }
  return take(table, indices, 0);
}

}  // namespace lockstep::nn
