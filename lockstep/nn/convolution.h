// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/ops/operand.h"
#include "lockstep/program/padding.h"
#include "lockstep/program/precision.h"

/// Convolutions, pooling and embeddings. Shapes that do not match throw a ShapeError with the user's line.
namespace lockstep::nn {

/// "SAME" (as many windows as ceil(size / stride)), "SAME_LOWER", "VALID" (only windows within the array), or
/// the numbers of zeros before and after each spatial dimension.
class ConvPadding {
 public:
  ConvPadding(const char* name) : name_(name) {}
  ConvPadding(std::string name) : name_(std::move(name)) {}
  ConvPadding(Padding sizes) : sizes_(std::move(sizes)) {}
  ConvPadding(std::initializer_list<std::pair<std::int64_t, std::int64_t>> sizes) : sizes_(sizes) {}

  /// The padding for dimensions of these sizes. Throws ShapeError unless it has as many entries as there are
  /// dimensions.
  Padding of(std::string_view operation, const Shape& sizes, const std::vector<std::int64_t>& windows,
             const std::vector<std::int64_t>& strides) const;

  /// The name; empty if the padding is given as numbers.
  const std::string& name() const { return name_; }
  /// "SAME"; "(1,1)(0,2)".
  std::string to_string() const;

 private:
  std::string name_;  ///< empty if the padding is given as numbers
  Padding sizes_;
};

struct ConvOptions {
  std::vector<std::int64_t> window_strides = {};  ///< here and below: empty means 1 in each dimension
  ConvPadding padding = "VALID";
  std::vector<std::int64_t> lhs_dilation = {}, rhs_dilation = {};

  /// The meaning of the dimensions of lhs, rhs and the result: N batch, C features, O and I output and input
  /// features, other letters spatial. By default "NCHW", "OIHW", "NCHW" for two spatial dimensions, and
  /// correspondingly for other numbers of dimensions.
  std::array<std::string, 3> dimension_numbers = {};
  std::int64_t feature_group_count = 1, batch_group_count = 1;

  Precision precision = Precision::kDefault;         ///< as in DotOptions
  std::optional<DType> preferred_element_type = {};  ///< as in DotOptions
};

/// jax.lax.conv_general_dilated: lhs convolved with the kernels rhs. The dtypes are promoted.
Array conv_general_dilated(const Operand& lhs, const Operand& rhs, ConvOptions options = {});

/// A convolution with features in the last dimension, as in flax: x is [batch, spatial…, features], the
/// kernels are [spatial…, input features, output features]. Throws ShapeError if options.dimension_numbers
/// are given.
Array conv(const Operand& x, const Operand& kernel, ConvOptions options = {.padding = "SAME"});

struct ConvTransposeOptions {
  std::vector<std::int64_t> strides = {};  ///< here and below: empty means 1 in each dimension
  ConvPadding padding = "SAME";  ///< "SAME" or "VALID", as for the convolution that this transposes; or
                                 ///< numbers, of zeros around this one's input
  std::vector<std::int64_t> rhs_dilation = {};
  bool transpose_kernel = false;  ///< use the kernels of the convolution that this transposes: reversed, with
                                  ///< input and output features exchanged
};

/// jax.lax.conv_transpose: a convolution of x with `strides` - 1 zeros between its elements, which restores
/// the shape that a convolution with these strides has reduced. x is [batch, spatial…, features], the kernels
/// are [spatial…, input features, output features].
Array conv_transpose(const Operand& x, const Operand& kernel, ConvTransposeOptions options = {});

struct PoolOptions {
  std::vector<std::int64_t> strides = {};
  ConvPadding padding = "VALID";
  bool count_include_pad = true;  ///< for avg_pool: divide by the whole window's size at the borders, too

  /// The meaning of x's dimensions, as in ConvOptions: "NCHW" for images from PyTorch. By default features
  /// are last, "NHWC".
  std::string dimension_numbers = {};
};

/// max_pool, min_pool, avg_pool: the largest, smallest or mean element of each window of x, which is [batch,
/// spatial…, features] unless options.dimension_numbers say otherwise. `window`, the strides and the padding
/// have an entry for each spatial dimension.
Array max_pool(const Operand& x, const std::vector<std::int64_t>& window, PoolOptions options = {});
Array min_pool(const Operand& x, const std::vector<std::int64_t>& window, PoolOptions options = {});
Array avg_pool(const Operand& x, const std::vector<std::int64_t>& window, PoolOptions options = {});

/// The rows of the table, [entries, features], at the indices; the result is [indices…, features]. An index
/// out of bounds gives a row of NaN.
Array embedding(const Operand& table, const Operand& indices);

}  // namespace lockstep::nn
