// SPDX-License-Identifier: Apache-2.0
#pragma once

// One or more examples of every primitive, for tests that iterate over the registry. Add an example for a new
// primitive here.

#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/convolution.h"
#include "lockstep/program/primitives/decompositions.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/fft.h"
#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/linalg.h"
#include "lockstep/program/primitives/name.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/program/primitives/ragged_dot.h"
#include "lockstep/program/primitives/random.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/registry.h"
#include "lockstep/program/primitives/reverse.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/sort.h"
#include "lockstep/program/primitives/special.h"
#include "lockstep/program/primitives/top_k.h"
#include "lockstep/program/primitives/window.h"
#include "lockstep/program/test_evaluate.h"

namespace lockstep::test {

struct Example {
  const ir::Primitive* primitive;
  ir::OpParams params;
  std::vector<HostArray> inputs;

  bool has_derivative = true;             ///< false: its derivative differs from finite differences
  double step = 1e-5;                     ///< for finite differences
  double tolerance = 1e-6;                ///< for comparisons, absolute and relative
  std::vector<std::string> varying = {};  ///< for the inputs
  bool any_numbers = true;                ///< false: it may be ill-conditioned for other inputs
};

/// The mesh of one device with which the examples are traced.
inline ir::AxisEnv example_axes() { return ir::AxisEnv({{"i", 1}}); }

/// The example as a program of one equation. Its inputs may be replaced by others.
inline ir::Program program_of(const Example& example, const ir::OpParams& params,
                              const std::vector<HostArray>& inputs) {
  ir::AxisEnvScope axes(example_axes());
  ir::Builder builder(example.primitive->name);
  std::vector<ir::Value> values;
  for (const HostArray& input : inputs) {
    Aval aval = input.aval();
    aval.varying = example.varying;
    values.push_back(builder.input(aval));
  }
  return builder.finish(builder.emit(*example.primitive, params, values));
}
inline ir::Program program_of(const Example& example) {
  return program_of(example, example.params, example.inputs);
}

/// Adds examples that move elements by index; some indices are out of bounds.
inline void add_index_examples(std::vector<Example>& all) {
  const HostArray x = random({4, 6}, -1, 1, 1);
  const HostArray rows{DType::kI64, {4, 1}, {2, 0, 5, 2}}, corners{DType::kI64, {2, 2}, {1, 2, 4, -1}},
      places = random({4, 2, 1}, 0, 6, 16, DType::kI64);
  all.push_back(
      {&ir::gather_p(), ir::OpParams::of(ir::SliceGatherParams{{1}, {0}, {0}, {}, {}, {1, 6}}), {x, rows}});
  all.push_back({&ir::gather_p(),
                 ir::OpParams::of(ir::SliceGatherParams{{0, 2}, {}, {0, 1}, {}, {}, {2, 4}}),
                 {x, corners}});
  all.push_back({&ir::gather_p(),
                 ir::OpParams::of(ir::SliceGatherParams{{}, {1}, {1}, {0}, {0}, {1, 1}}),
                 {x, places}});

  const ir::OpParams by_row = ir::OpParams::of(ir::ScatterParams{{1}, {0}, {0}, {}, {}, false});
  const ir::OpParams by_place = ir::OpParams::of(ir::ScatterParams{{}, {1}, {1}, {0}, {0}, false});
  const ir::OpParams by_corner = ir::OpParams::of(ir::ScatterParams{{0, 2}, {}, {0, 1}, {}, {}, false});
  const HostArray onto_rows = random({4, 6}, -1, 1, 17), onto_places = random({4, 2}, -1, 1, 18),
                  onto_corners = random({2, 2, 4}, -1, 1, 19);
  for (const ir::Primitive* p : {&ir::scatter_p(), &ir::scatter_add_p(), &ir::scatter_max_p()}) {
    all.push_back({p, by_row, {x, rows, onto_rows}});
  }
  all.push_back({&ir::scatter_p(), by_place, {x, places, onto_places}});
  all.push_back({&ir::scatter_add_p(), by_corner, {x, corners, onto_corners}});
  all.push_back({&ir::scatter_min_p(), by_place, {x, places, onto_places}});
  const HostArray distinct{DType::kI64, {4, 1}, {2, 0, 5, 1}};
  for (const ir::Primitive* p : {&ir::scatter_p(), &ir::scatter_mul_p()}) {
    all.push_back(
        {p, ir::OpParams::of(ir::ScatterParams{{1}, {0}, {0}, {}, {}, true}), {x, distinct, onto_rows}});
  }
}

/// Adds examples of sorts, running results and windows.
inline void add_order_examples(std::vector<Example>& all) {
  const HostArray x = random({4, 6}, -1, 1, 1), y = random({4, 6}, -1, 1, 2),
                  few = random({4, 6}, 0, 3, 6, DType::kI32), cube = random({4, 6, 2}, -1, 1, 10);
  all.push_back({&ir::sort_p(), ir::OpParams::of(ir::SortParams{1, true, 1, false}), {x}});
  all.push_back({&ir::sort_p(), ir::OpParams::of(ir::SortParams{0, true, 1, true}), {x, y}});
  all.push_back({&ir::sort_p(), ir::OpParams::of(ir::SortParams{1, true, 2, false}), {few, x, y}});
  all.push_back({&ir::sort_p(), ir::OpParams::of(ir::SortParams{1, true, 1, true, 2}), {x, y}});
  all.push_back({&ir::sort_p(), ir::OpParams::of(ir::SortParams{0, true, 2, false, 3}), {few, x}});
  all.push_back({&ir::sort_p(), ir::OpParams::of(ir::SortParams{1, true, 1, false, 0}), {few}});
  all.push_back({&ir::top_k_p(), ir::OpParams::of(ir::TopKParams{2}), {x}});
  all.push_back({&ir::top_k_p(), ir::OpParams::of(ir::TopKParams{6}), {few}});
  for (const ir::Primitive* p :
       {&ir::cumsum_p(), &ir::cumprod_p(), &ir::cummax_p(), &ir::cummin_p(), &ir::cumlogsumexp_p()}) {
    all.push_back({p, ir::OpParams::of(ir::CumulativeParams{1, false}), {cube}});
  }
  for (const ir::Primitive* p : {&ir::cumsum_p(), &ir::cumprod_p()})
    all.push_back({p, ir::OpParams::of(ir::CumulativeParams{0, true}), {random({5, 2}, -1, 1, 20)}});
  for (const ir::Primitive* p :
       {&ir::reduce_window_sum_p(), &ir::reduce_window_max_p(), &ir::reduce_window_min_p()}) {
    all.push_back(
        {p,
         ir::OpParams::of(ir::WindowParams{{1, 2, 2}, {1, 2, 1}, {0, 0, 1}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}}),
         {cube}});
  }
  for (const ir::Primitive* p : {&ir::reduce_window_sum_p(), &ir::reduce_window_max_p()})
    all.push_back(
        {p, ir::OpParams::of(ir::WindowParams{{3, 2}, {1, 2}, {1, -2}, {2, 1}, {1, 2}, {1, 2}}), {x}});
  all.push_back({&ir::rev_p(), ir::OpParams::of(ir::RevParams{{1, 2}}), {cube}});
  all.push_back({&ir::rotate_p(), ir::OpParams::of(ir::RotateParams{1, 1}), {cube}});
  all.push_back({.primitive = &ir::reduce_precision_p(),
                 .params = ir::OpParams::of(ir::ReducePrecisionParams{5, 10}),
                 .inputs = {x},
                 .has_derivative = false});
}

inline void add_convolution_examples(std::vector<Example>& all) {
  auto conv = [&](ir::ConvParams params, const Shape& lhs, const Shape& rhs) {
    all.push_back({&ir::conv_general_dilated_p(),
                   ir::OpParams::of(std::move(params)),
                   {random(lhs, -1, 1, 21), random(rhs, -1, 1, 22)}});
  };
  const std::vector<std::int64_t> plain = {0, 1, 2}, nhwc = {0, 3, 1, 2}, hwio = {3, 2, 0, 1};
  conv({{2}, {1}, {2}, {2}, {2}, plain, plain, plain, 1, 1}, {2, 4, 6}, {4, 4, 3});
  conv({{1, 2}, {0, 1}, {1, 0}, {1, 1}, {2, 1}, nhwc, hwio, nhwc, 1, 1}, {2, 5, 4, 4}, {3, 2, 4, 2});
  conv({{1}, {1}, {-1}, {1}, {1}, plain, plain, plain, 2, 1}, {2, 4, 6}, {6, 2, 3});
  conv({{1}, {0}, {1}, {1}, {1}, plain, plain, {2, 0, 1}, 1, 2}, {4, 2, 6}, {4, 2, 3});
  conv({{}, {}, {}, {}, {}, {0, 1}, {0, 1}, {0, 1}, 1, 1}, {2, 4}, {6, 4});
}

inline std::vector<Example> all_examples() {
  const Shape s = {4, 6};
  const HostArray x = random(s, -1, 1, 1), y = random(s, -1, 1, 2), positive = random(s, 0.3, 2, 3);
  const HostArray ints = random(s, 0, 100, 4, DType::kI32), more_ints = random(s, 0, 100, 5, DType::kI32);
  const HostArray few = random(s, 0, 8, 6, DType::kI32);
  const HostArray bools = random(s, 0, 2, 7, DType::kBool), more_bools = random(s, 0, 2, 8, DType::kBool);
  const HostArray words = random(s, 0, 4294967296.0, 9, DType::kU32);
  const HostArray cube = random({4, 6, 2}, -1, 1, 10);
  HostArray with_zeros = cube;
  with_zeros.values[3] = with_zeros.values[20] = with_zeros.values[21] = 0;
  auto i32 = [](int value) { return scalar(value, DType::kI32); };
  auto axes = [](std::vector<std::int64_t> axes) {
    return ir::OpParams::of(ir::ReduceParams{std::move(axes)});
  };
  const ir::OpParams none, over_i = ir::OpParams::of(ir::AxesParams{{"i"}}),
                           gather = ir::OpParams::of(ir::GatherParams{{"i"}, 1, 1});

  std::vector<Example> all;
  for (const ir::Primitive* p : {&ir::neg_p(), &ir::sign_p(), &ir::abs_p(), &ir::floor_p(), &ir::ceil_p(),
                                 &ir::round_p(), &ir::exp_p(), &ir::expm1_p(), &ir::tanh_p(),
                                 &ir::logistic_p(), &ir::sin_p(), &ir::cos_p(), &ir::is_finite_p()}) {
    all.push_back({p, none, {x}});
  }
  for (const ir::Primitive* p : {&ir::log_p(), &ir::log1p_p(), &ir::sqrt_p(), &ir::rsqrt_p()})
    all.push_back({p, none, {positive}});
  for (const ir::Primitive* p :
       {&ir::add_p(), &ir::sub_p(), &ir::mul_p(), &ir::max_p(), &ir::min_p(), &ir::eq_p(), &ir::ne_p(),
        &ir::lt_p(), &ir::le_p(), &ir::gt_p(), &ir::ge_p()}) {
    all.push_back({p, none, {x, y}});
  }
  for (const ir::Primitive* p : {&ir::div_p(), &ir::rem_p()}) all.push_back({p, none, {x, positive}});
  all.push_back({&ir::gcd_p(), none, {ints, more_ints}});
  all.push_back({&ir::pow_p(), none, {positive, y}});
  for (const ir::Primitive* p : {&ir::logical_and_p(), &ir::logical_or_p(), &ir::logical_xor_p()}) {
    all.push_back({p, none, {ints, more_ints}});
    all.push_back({p, none, {bools, more_bools}});
  }
  all.push_back({&ir::logical_not_p(), none, {bools}});
  all.push_back({&ir::logical_not_p(), none, {ints}});
  for (const ir::Primitive* p :
       {&ir::shift_left_p(), &ir::shift_right_logical_p(), &ir::shift_right_arithmetic_p()}) {
    all.push_back({p, none, {ints, few}});
  }
  all.push_back({&ir::select_p(), none, {bools, x, y}});
  all.push_back({&ir::convert_element_type_p(), ir::OpParams::of(ir::ConvertParams{DType::kF64, true}), {x}});
  all.push_back({.primitive = &ir::convert_element_type_p(),
                 .params = ir::OpParams::of(ir::ConvertParams{DType::kF32, false}),
                 .inputs = {x},
                 .step = 0.25,
                 .tolerance = 1e-5});
  all.push_back(
      {&ir::convert_element_type_p(), ir::OpParams::of(ir::ConvertParams{DType::kF64, false}), {ints}});
  all.push_back(
      {&ir::convert_element_type_p(), ir::OpParams::of(ir::ConvertParams{DType::kI32, false}), {x}});
  all.push_back(
      {&ir::convert_element_type_p(), ir::OpParams::of(ir::ConvertParams{DType::kBool, false}), {few}});
  all.push_back({&ir::collective_done_p(), {}, {x}});
  all.push_back({&ir::name_p(), ir::OpParams::of(ir::NameParams{"x"}), {x}});
  all.push_back({.primitive = &ir::stop_gradient_p(), .inputs = {x}, .has_derivative = false});

  for (const ir::Primitive* p : {&ir::cbrt_p(), &ir::erf_p(), &ir::erfc_p(), &ir::lgamma_p(), &ir::tan_p(),
                                 &ir::atan_p(), &ir::sinh_p(), &ir::cosh_p(), &ir::asinh_p(), &ir::entr_p()})
    all.push_back({p, none, {positive}});
  for (const ir::Primitive* p : {&ir::asin_p(), &ir::acos_p(), &ir::atanh_p()})
    all.push_back({p, none, {random(s, -0.9, 0.9, 21)}});
  all.push_back({&ir::acosh_p(), none, {random(s, 1.2, 3, 22)}});
  for (const ir::Primitive* p : {&ir::logit_p(), &ir::ndtri_p()})
    all.push_back({p, none, {random(s, 0.05, 0.95, 23)}});
  for (std::int64_t n : {-2, 0, 1, 2, 5})
    all.push_back({&ir::integer_pow_p(), ir::OpParams::of(ir::IntegerPowParams{n}), {positive}});
  for (const ir::Primitive* p : {&ir::logaddexp_p(), &ir::logaddexp2_p(), &ir::xlogy_p(), &ir::xlog1py_p(),
                                 &ir::betaln_p(), &ir::hypot_p()})
    all.push_back({p, none, {positive, random(s, 0.3, 2, 24)}});
  all.push_back({&ir::erf_inv_p(), none, {random(s, -0.9, 0.9, 15)}});
  for (int order : {0, 1, 2}) {
    all.push_back({&ir::polygamma_p(), ir::OpParams::of(ir::PolygammaParams{order}), {positive}});
  }
  all.push_back({&ir::atan2_p(), none, {x, positive}});
  const HostArray narrow = random(s, -1, 1, 16, DType::kF32);
  all.push_back({.primitive = &ir::complex_p(), .inputs = {narrow, narrow}, .has_derivative = false});
  for (const ir::Primitive* p : {&ir::real_p(), &ir::imag_p(), &ir::complex_square_p()}) {
    all.push_back({.primitive = p, .inputs = {random(s, -1, 1, 17, DType::kC64)}, .has_derivative = false});
  }
  all.push_back({&ir::bitcast_convert_type_p(), ir::OpParams::of(ir::BitcastParams{DType::kU32}), {ints}});
  for (const ir::Primitive* p : {&ir::population_count_p(), &ir::clz_p()}) all.push_back({p, none, {ints}});

  all.push_back(
      {&ir::full_p(), ir::OpParams::of(ir::FullParams{ir::Scalar::of(1.5), DType::kF64, s, false}), {}});
  all.push_back({&ir::iota_p(), ir::OpParams::of(ir::IotaParams{DType::kI32, s, 1}), {}});
  all.push_back(
      {&ir::broadcast_in_dim_p(), ir::OpParams::of(ir::BroadcastInDimParams{{2, 4, 6}, {1, 2}}), {x}});
  all.push_back({&ir::broadcast_in_dim_p(),
                 ir::OpParams::of(ir::BroadcastInDimParams{{4, 2, 6}, {0, 2}}),
                 {random({4, 1}, -1, 1)}});
  all.push_back(
      {&ir::broadcast_in_dim_p(), ir::OpParams::of(ir::BroadcastInDimParams{s, {}}), {scalar(0.7)}});
  all.push_back({&ir::reshape_p(), ir::OpParams::of(ir::ReshapeParams{{2, 2, 6}}), {x}});
  all.push_back({&ir::reshape_p(), ir::OpParams::of(ir::ReshapeParams{{8, 6}}), {random({2, 4, 6}, -1, 1)}});
  all.push_back({&ir::reshape_p(), ir::OpParams::of(ir::ReshapeParams{{6, 4}}), {x}});
  all.push_back({&ir::transpose_p(), ir::OpParams::of(ir::TransposeParams{{2, 0, 1}}), {cube}});
  all.push_back({&ir::slice_p(), ir::OpParams::of(ir::SliceParams{{0, 1}, {4, 6}, {1, 2}}), {x}});
  all.push_back({&ir::pad_p(), ir::OpParams::of(ir::PadParams{{0, 1}, {0, 2}, {0, 1}}), {x, scalar(0.5)}});
  all.push_back({&ir::pad_p(), ir::OpParams::of(ir::PadParams{{-1, 2}, {3, -2}, {0, 0}}), {x, scalar(0.5)}});
  all.push_back(
      {&ir::concatenate_p(), ir::OpParams::of(ir::ConcatenateParams{1}), {x, random({4, 2}, -1, 1), y}});
  all.push_back(
      {&ir::dynamic_slice_p(), ir::OpParams::of(ir::DynamicSliceParams{{4, 2}}), {x, i32(0), i32(3)}});
  all.push_back({&ir::dynamic_update_slice_p(), none, {x, random({4, 2}, -1, 1, 11), i32(0), i32(3)}});

  for (const ir::Primitive* p :
       {&ir::reduce_sum_p(), &ir::reduce_prod_p(), &ir::reduce_max_p(), &ir::reduce_min_p()}) {
    all.push_back({p, axes({0, 2}), {cube}});
    all.push_back({p, axes({1}), {x}});
  }
  all.push_back({&ir::reduce_prod_p(), axes({0, 2}), {with_zeros}});
  for (const ir::Primitive* p : {&ir::reduce_and_p(), &ir::reduce_or_p()}) {
    all.push_back({p, axes({1}), {bools}});
    all.push_back({p, axes({0}), {ints}});
  }
  for (const ir::Primitive* p : {&ir::argmax_p(), &ir::argmin_p()}) {
    all.push_back({p, ir::OpParams::of(ir::ArgParams{1, DType::kI32}), {cube}});
  }
  all.push_back({&ir::dot_general_p(),
                 ir::OpParams::of(ir::DotGeneralParams{{1}, {0}, {}, {}}),
                 {x, random({6, 2}, -1, 1)}});
  all.push_back({&ir::dot_general_p(),
                 ir::OpParams::of(ir::DotGeneralParams{{2}, {0}, {0}, {1}}),
                 {random({2, 4, 6}, -1, 1), random({6, 2, 8}, -1, 1, 12)}});
  all.push_back({&ir::dot_general_p(),
                 ir::OpParams::of(ir::DotGeneralParams{{1, 3}, {2, 0}, {2}, {3}}),
                 {random({2, 4, 6, 8}, -1, 1), random({8, 2, 4, 6}, -1, 1, 13)}});
  const HostArray groups = random({8}, -1, 4, 14, DType::kI32);  // of 3: some rows are in none
  for (const bool transposed : {false, true}) {
    all.push_back(
        {&ir::ragged_dot_p(),
         ir::OpParams::of(ir::RaggedDotParams{transposed}),
         {random({8, 4}, -1, 1), random(transposed ? Shape{3, 2, 4} : Shape{3, 4, 2}, -1, 1, 15), groups}});
  }
  all.push_back({&ir::ragged_contracting_dot_p(),
                 ir::OpParams::of(ir::RaggedContractingDotParams{3}),
                 {random({8, 4}, -1, 1), random({8, 2}, -1, 1, 16), groups}});
  HostArray definite = random({2, 3, 3}, -0.3, 0.3, 18), triangular = definite;
  for (std::size_t i : {0, 4, 8, 9, 13, 17}) definite.values[i] += 2, triangular.values[i] = 1.5;
  all.push_back({.primitive = &ir::cholesky_p(), .inputs = {definite}, .any_numbers = false});
  for (int bits = 0; bits < 16; bits += 5) {
    const bool left = bits & 1;
    const ir::TriangularSolveParams params{left, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
    const HostArray right = random(left ? Shape{2, 3, 4} : Shape{2, 4, 3}, -1, 1, 19);
    all.push_back({.primitive = &ir::triangular_solve_p(),
                   .params = ir::OpParams::of(params),
                   .inputs = {triangular, right},
                   .any_numbers = false});
  }
  all.push_back({.primitive = &ir::qr_p(), .inputs = {random({2, 4, 3}, -1, 1, 20)}, .any_numbers = false});
  // No derivative where there are more columns; eigh's is tested beside the operations, for its tangents must
  // be symmetric.
  const HostArray wide = random({2, 3, 4}, -1, 1, 21);
  all.push_back({.primitive = &ir::qr_p(), .inputs = {wide}, .has_derivative = false, .any_numbers = false});
  all.push_back(
      {.primitive = &ir::eigh_p(), .inputs = {definite}, .has_derivative = false, .any_numbers = false});
  for (const Shape& shape : {Shape{2, 4, 3}, Shape{2, 3, 4}, Shape{2, 4, 4}}) {
    const HostArray any = random(shape, -1, 1, 23);
    all.push_back({.primitive = &ir::lu_p(), .inputs = {any}, .any_numbers = false});
    for (bool vectors : {true, false}) {
      all.push_back({.primitive = &ir::svd_p(),
                     .params = ir::OpParams::of(ir::VectorsParams{vectors}),
                     .inputs = {any},
                     .any_numbers = false});
    }
  }
  const HostArray general = random({2, 4, 4}, -1, 1, 24, DType::kF32);
  for (bool vectors : {true, false}) {
    all.push_back({.primitive = &ir::eig_p(),
                   .params = ir::OpParams::of(ir::VectorsParams{vectors}),
                   .inputs = {general},
                   .has_derivative = false,
                   .any_numbers = false});
  }
  for (const ir::Primitive* p : {&ir::schur_p(), &ir::complex_schur_p(), &ir::sqrtm_p()}) {
    all.push_back({.primitive = p, .inputs = {general}, .has_derivative = false, .any_numbers = false});
  }
  for (const Shape& shape : {Shape{2, 4, 3}, Shape{2, 3, 4}}) {
    all.push_back({.primitive = &ir::geqrf_p(),
                   .inputs = {random(shape, -1, 1, 29)},
                   .has_derivative = false,
                   .any_numbers = false});
  }
  all.push_back({.primitive = &ir::householder_product_p(),
                 .inputs = {random({2, 4, 3}, -1, 1, 30), random({2, 2}, 0.5, 1.5, 31)},
                 .has_derivative = false,
                 .any_numbers = false});
  auto fft = [&](ir::FftType type, Shape lengths, HostArray of) {
    all.push_back(
        {.primitive = &ir::fft_p(),
         .params = ir::OpParams::of(ir::FftParams{static_cast<std::int64_t>(type), std::move(lengths)}),
         .inputs = {std::move(of)},
         .has_derivative = false});
  };
  fft(ir::FftType::kFft, {6}, random({4, 6}, -1, 1, 25, DType::kC64));
  fft(ir::FftType::kIfft, {3, 4}, random({2, 3, 4}, -1, 1, 26, DType::kC64));
  fft(ir::FftType::kRfft, {6}, random({4, 6}, -1, 1, 27, DType::kF32));
  fft(ir::FftType::kIrfft, {4, 5}, random({2, 4, 3}, -1, 1, 28, DType::kC64));
  // Dimensions of the transform that can be split.
  fft(ir::FftType::kFft, {16}, random({16}, -1, 1, 29, DType::kC64));
  fft(ir::FftType::kIfft, {16}, random({16}, -1, 1, 30, DType::kC64));
  fft(ir::FftType::kFft, {8, 8}, random({8, 8}, -1, 1, 31, DType::kC64));
  fft(ir::FftType::kFft, {8, 4, 8}, random({8, 4, 8}, -1, 1, 32, DType::kC64));
  fft(ir::FftType::kIfft, {4, 4, 8}, random({2, 4, 4, 8}, -1, 1, 33, DType::kC64));
  fft(ir::FftType::kRfft, {8, 4, 6}, random({8, 4, 6}, -1, 1, 34, DType::kF32));
  fft(ir::FftType::kIrfft, {8, 4, 7}, random({8, 4, 4}, -1, 1, 35, DType::kC64));
  fft(ir::FftType::kIrfft, {8, 6}, random({8, 4}, -1, 1, 36, DType::kC64));
  all.push_back(
      {&ir::threefry2x32_p(), none, {words, random(s, 0, 4294967296.0, 14, DType::kU32), words, words}});

  add_index_examples(all);
  add_order_examples(all);
  add_convolution_examples(all);

  all.push_back({.primitive = &ir::psum_p(), .params = over_i, .inputs = {x}, .varying = {"i"}});
  all.push_back({.primitive = &ir::pmax_p(),
                 .params = over_i,
                 .inputs = {x},
                 .has_derivative = false,
                 .varying = {"i"}});
  all.push_back({.primitive = &ir::pmin_p(),
                 .params = over_i,
                 .inputs = {x},
                 .has_derivative = false,
                 .varying = {"i"}});
  all.push_back({.primitive = &ir::psum_p(),
                 .params = ir::OpParams::of(ir::AxesParams{{"i"}, {{{0}}}}),
                 .inputs = {x},
                 .varying = {"i"}});
  all.push_back({.primitive = &ir::pvary_p(), .params = over_i, .inputs = {x}});
  all.push_back({.primitive = &ir::all_gather_p(), .params = gather, .inputs = {x}, .varying = {"i"}});
  all.push_back({.primitive = &ir::psum_scatter_p(), .params = gather, .inputs = {x}, .varying = {"i"}});
  all.push_back({.primitive = &ir::all_to_all_p(),
                 .params = ir::OpParams::of(ir::AllToAllParams{{"i"}, 1, 0, 1}),
                 .inputs = {x},
                 .varying = {"i"}});
  all.push_back({.primitive = &ir::ppermute_p(),
                 .params = ir::OpParams::of(ir::PermuteParams{{"i"}, 1, {{0, 0}}}),
                 .inputs = {x},
                 .varying = {"i"}});
  all.push_back({.primitive = &ir::ppermute_p(),
                 .params = ir::OpParams::of(ir::PermuteParams{{"i"}, 1, {}}),
                 .inputs = {x},
                 .varying = {"i"}});
  all.push_back({.primitive = &ir::axis_index_p(), .params = over_i});

  const ir::OpParams rows = ir::OpParams::of(ir::PlacementParams{{{"i"}}, {"i"}, {1}, {0}, {"i"}});
  all.push_back({.primitive = &ir::to_local_p(), .params = rows, .inputs = {x}});
  all.push_back({.primitive = &ir::to_global_p(), .params = rows, .inputs = {x}, .varying = {"i"}});
  all.push_back({.primitive = &ir::sharding_constraint_p(), .params = rows, .inputs = {x}});
  return all;
}

}  // namespace lockstep::test
