// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/registry.h"

#include "lockstep/program/primitives/callback.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/convolution.h"
#include "lockstep/program/primitives/debug.h"
#include "lockstep/program/primitives/decompositions.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/ffi_call.h"
#include "lockstep/program/primitives/fft.h"
#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/linalg.h"
#include "lockstep/program/primitives/name.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/program/primitives/ragged_dot.h"
#include "lockstep/program/primitives/random.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/reverse.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/sort.h"
#include "lockstep/program/primitives/special.h"
#include "lockstep/program/primitives/top_k.h"
#include "lockstep/program/primitives/window.h"

namespace lockstep::ir {

std::span<const Primitive* const> all_primitives() {
  static const Primitive* const all[] = {
      // elementwise.h
      &neg_p(), &sign_p(), &abs_p(), &floor_p(), &ceil_p(), &round_p(), &exp_p(), &expm1_p(), &log_p(),
      &log1p_p(), &tanh_p(), &logistic_p(), &sqrt_p(), &rsqrt_p(), &sin_p(), &cos_p(), &is_finite_p(),
      &logical_not_p(), &add_p(), &sub_p(), &mul_p(), &div_p(), &gcd_p(), &rem_p(), &pow_p(), &max_p(),
      &min_p(), &logical_and_p(), &logical_or_p(), &logical_xor_p(), &shift_left_p(),
      &shift_right_logical_p(), &shift_right_arithmetic_p(), &eq_p(), &ne_p(), &lt_p(), &le_p(), &gt_p(),
      &ge_p(), &select_p(), &convert_element_type_p(), &stop_gradient_p(),
      // name.h
      &name_p(),
      // special.h
      &cbrt_p(), &atan2_p(), &tan_p(), &asin_p(), &acos_p(), &atan_p(), &sinh_p(), &cosh_p(), &asinh_p(),
      &acosh_p(), &atanh_p(), &erf_p(), &erfc_p(), &erf_inv_p(), &lgamma_p(), &polygamma_p(),
      &complex_square_p(), &integer_pow_p(), &logaddexp_p(), &logaddexp2_p(), &xlogy_p(), &xlog1py_p(),
      &entr_p(), &logit_p(), &betaln_p(), &ndtri_p(), &hypot_p(),
      // complex.h
      &complex_p(), &real_p(), &imag_p(), &bitcast_convert_type_p(), &population_count_p(), &clz_p(),
      // shape.h
      &full_p(), &iota_p(), &broadcast_in_dim_p(), &reshape_p(), &transpose_p(), &slice_p(), &pad_p(),
      &concatenate_p(), &dynamic_slice_p(), &dynamic_update_slice_p(),
      // reduction.h
      &reduce_sum_p(), &reduce_prod_p(), &reduce_max_p(), &reduce_min_p(), &reduce_and_p(), &reduce_or_p(),
      &argmax_p(), &argmin_p(),
      // dot_general.h, ragged_dot.h
      &dot_general_p(), &ragged_dot_p(), &ragged_contracting_dot_p(),
      // gather.h
      &gather_p(), &scatter_p(), &scatter_add_p(), &scatter_mul_p(), &scatter_min_p(), &scatter_max_p(),
      // sort.h, top_k.h
      &sort_p(), &top_k_p(),
      // window.h
      &reduce_window_sum_p(), &reduce_window_max_p(), &reduce_window_min_p(), &cumsum_p(), &cumprod_p(),
      &cummax_p(), &cummin_p(), &cumlogsumexp_p(),
      // convolution.h
      &conv_general_dilated_p(),
      // reverse.h
      &rev_p(), &rotate_p(), &reduce_precision_p(),
      // linalg.h
      &cholesky_p(), &triangular_solve_p(), &qr_p(), &eigh_p(),
      // decompositions.h
      &lu_p(), &svd_p(), &eig_p(), &schur_p(), &complex_schur_p(), &sqrtm_p(), &geqrf_p(),
      &householder_product_p(),
      // fft.h
      &fft_p(),
      // random.h
      &threefry2x32_p(),
      // collectives.h
      &psum_p(), &pmax_p(), &pmin_p(), &pvary_p(), &all_gather_p(), &psum_scatter_p(), &all_to_all_p(),
      &ppermute_p(), &axis_index_p(), &collective_done_p(),
      // callback.h
      &pure_callback_p(), &io_callback_p(),
      // ffi_call.h
      &ffi_call_p(),
      // debug.h
      &debug_p(),
      // placement.h
      &to_local_p(), &to_global_p(), &sharding_constraint_p()};
  return all;
}

}  // namespace lockstep::ir
