// SPDX-License-Identifier: Apache-2.0
#include "lockstep/interop/properties.h"

#include <unordered_map>

namespace lockstep::interop {

const std::vector<std::string>* property_names(const std::string& operation) {
  static const std::vector<std::string> accuracy = {"result_accuracy"};
  static const std::unordered_map<std::string, std::vector<std::string>> all = {
      {"func_v1", {"arg_attrs", "function_type", "res_attrs", "sym_name", "sym_visibility"}},
      {"call_v1", {"callee"}},
      {"composite_v1", {"composite_attributes", "decomposition", "name", "version"}},
      {"composite_v2", {"composite_attributes", "decomposition", "name", "version"}},
      {"constant_v1", {"value"}},
      {"iota_v1", {"iota_dimension"}},
      {"dot_general_v1",
       {"lhs_batching_dimensions", "lhs_contracting_dimensions", "precision_config",
        "rhs_batching_dimensions", "rhs_contracting_dimensions"}},
      {"dot_general_v2",
       {"accumulation_type", "allow_imprecise_accumulation", "lhs_batching_dimensions", "lhs_component_count",
        "lhs_contracting_dimensions", "lhs_precision_type", "num_primitive_operations", "precision_config",
        "rhs_batching_dimensions", "rhs_component_count", "rhs_contracting_dimensions",
        "rhs_precision_type"}},
      {"convolution_v1",
       {"batch_group_count", "feature_group_count", "input_batch_dimension", "input_feature_dimension",
        "input_spatial_dimensions", "kernel_input_feature_dimension", "kernel_output_feature_dimension",
        "kernel_spatial_dimensions", "lhs_dilation", "output_batch_dimension", "output_feature_dimension",
        "output_spatial_dimensions", "padding", "precision_config", "rhs_dilation", "window_reversal",
        "window_strides"}},
      {"gather_v1",
       {"collapsed_slice_dims", "index_vector_dim", "indices_are_sorted", "offset_dims", "slice_sizes",
        "start_index_map"}},
      {"gather_v2",
       {"collapsed_slice_dims", "index_vector_dim", "indices_are_sorted", "offset_dims",
        "operand_batching_dims", "slice_sizes", "start_index_map", "start_indices_batching_dims"}},
      {"scatter_v1",
       {"index_vector_dim", "indices_are_sorted", "inserted_window_dims", "scatter_dims_to_operand_dims",
        "unique_indices", "update_window_dims"}},
      {"scatter_v2",
       {"index_vector_dim", "indices_are_sorted", "input_batching_dims", "inserted_window_dims",
        "scatter_dims_to_operand_dims", "scatter_indices_batching_dims", "unique_indices",
        "update_window_dims"}},
      {"reduce_v1", {"dimensions"}},
      {"reduce_window_v1",
       {"base_dilations", "padding", "window_dilations", "window_dimensions", "window_strides"}},
      {"select_and_scatter_v1", {"padding", "window_dimensions", "window_strides"}},
      {"sort_v1", {"dimension", "is_stable"}},
      {"compare_v1", {"compare_type", "comparison_direction"}},
      {"broadcast_in_dim_v1", {"broadcast_dimensions"}},
      {"reverse_v1", {"dimensions"}},
      {"transpose_v1", {"permutation"}},
      {"slice_v1", {"limit_indices", "start_indices", "strides"}},
      {"pad_v1", {"edge_padding_high", "edge_padding_low", "interior_padding"}},
      {"concatenate_v1", {"dimension"}},
      {"dynamic_slice_v1", {"slice_sizes"}},
      {"reduce_precision_v1", {"exponent_bits", "mantissa_bits"}},
      {"fft_v1", {"fft_length", "fft_type"}},
      {"custom_call_v1",
       {"api_version", "backend_config", "call_target_name", "called_computations", "has_side_effect",
        "operand_layouts", "output_operand_aliases", "result_layouts"}},
      {"cholesky_v1", {"lower"}},
      {"triangular_solve_v1", {"left_side", "lower", "transpose_a", "unit_diagonal"}},
      {"cbrt_v2", accuracy},
      {"cosine_v2", accuracy},
      {"exponential_v2", accuracy},
      {"exponential_minus_one_v2", accuracy},
      {"log_v2", accuracy},
      {"log_plus_one_v2", accuracy},
      {"logistic_v2", accuracy},
      {"rsqrt_v2", accuracy},
      {"sine_v2", accuracy},
      {"sqrt_v2", accuracy},
      {"tan_v2", accuracy},
      {"tanh_v2", accuracy},
  };
  const auto found = all.find(operation.substr(operation.find('.') + 1));
  return found == all.end() || !operation.starts_with("vhlo.") ? nullptr : &found->second;
}

}  // namespace lockstep::interop
