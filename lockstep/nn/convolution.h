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

/// Convolutions, pooling and embeddings. Shapes that do not fit are a ShapeError with the user's line.
namespace lockstep::nn {

/// "SAME" (as many windows as there are strides in a dimension), "SAME_LOWER", "VALID" (windows lie within),
/// or the numbers of zeros before and behind each spatial dimension.
class ConvPadding {
 public:
  ConvPadding(const char* name) : name_(name) {}
  ConvPadding(std::string name) : name_(std::move(name)) {}
  ConvPadding(Padding sizes) : sizes_(std::move(sizes)) {}
  ConvPadding(std::initializer_list<std::pair<std::int64_t, std::int64_t>> sizes) : sizes_(sizes) {}

  /// For dimensions of these sizes. Throws ShapeError unless there are as many.
  Padding of(std::string_view operation, const Shape& sizes, const std::vector<std::int64_t>& windows,
             const std::vector<std::int64_t>& strides) const;

  /// The name; empty where there are numbers.
  const std::string& name() const { return name_; }
  /// "SAME"; "(1,1)(0,2)".
  std::string to_string() const;

 private:
  std::string name_;  ///< empty where there are numbers
  Padding sizes_;
};

struct ConvOptions {
  std::vector<std::int64_t> window_strides = {};  ///< here and below: empty for 1 everywhere
  ConvPadding padding = "VALID";
  std::vector<std::int64_t> lhs_dilation = {}, rhs_dilation = {};

  /// What the dimensions of lhs, rhs and the result are: N batch, C features, O and I output and input
  /// features, all others spatial. By default "NCHW", "OIHW", "NCHW" for two spatial dimensions, and likewise
  /// for others.
  std::array<std::string, 3> dimension_numbers = {};
  std::int64_t feature_group_count = 1, batch_group_count = 1;

  Precision precision = Precision::kDefault;         ///< as DotOptions'
  std::optional<DType> preferred_element_type = {};  ///< the same
};

/// jax.lax's: lhs convolved with the kernels rhs. The dtypes are promoted.
Array conv_general_dilated(const Operand& lhs, const Operand& rhs, ConvOptions options = {});

/// The same with features last, as flax has it: x is [batch, spatial…, features], the kernels are [spatial…,
/// input features, output features]. Dimension numbers may not be given.
Array conv(const Operand& x, const Operand& kernel, ConvOptions options = {.padding = "SAME"});

struct ConvTransposeOptions {
  std::vector<std::int64_t> strides = {};  ///< here and below: empty for 1 everywhere
  ConvPadding padding = "SAME";  ///< "SAME" or "VALID": that of the convolution; or of the result itself
  std::vector<std::int64_t> rhs_dilation = {};
  bool transpose_kernel =
      false;  ///< the kernels are those of the convolution: turned round, features exchanged
};

/// jax.lax.conv_transpose: a convolution with `strides` - 1 zeros between the elements of x, which undoes the
/// shape of a convolution with these strides. x is [batch, spatial…, features], the kernels are [spatial…,
/// input features, output features].
Array conv_transpose(const Operand& x, const Operand& kernel, ConvTransposeOptions options = {});

struct PoolOptions {
  std::vector<std::int64_t> strides = {};
  ConvPadding padding = "VALID";
  bool count_include_pad = true;  ///< of avg_pool: divide by the window's size at the borders too
};

/// The largest, smallest and mean element of each window of x, which is [batch, spatial…, features].
Array max_pool(const Operand& x, const std::vector<std::int64_t>& window, PoolOptions options = {});
Array min_pool(const Operand& x, const std::vector<std::int64_t>& window, PoolOptions options = {});
Array avg_pool(const Operand& x, const std::vector<std::int64_t>& window, PoolOptions options = {});

/// The rows of the table, [entries, features], that the indices name: of shape [indices…, features]. Out of
/// bounds a row is NaN.
Array embedding(const Operand& table, const Operand& indices);

}  // namespace lockstep::nn
