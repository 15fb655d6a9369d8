// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/fft.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/fft_of_parts.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir {
namespace {

FftType type_of(const FftParams& params) { return static_cast<FftType>(params.type); }

std::string_view name_of(FftType type) {
  switch (type) {
    case FftType::kFft:
      return "FFT";
    case FftType::kIfft:
      return "IFFT";
    case FftType::kRfft:
      return "RFFT";
    case FftType::kIrfft:
      return "IRFFT";
  }
  return "";
}

/// The transpose of a real transform: that of the complex one, with zeros for the omitted elements.
Value rfft_transpose(const Value& t, const std::vector<std::int64_t>& lengths) {
  const Aval aval = t.aval();
  std::vector<std::int64_t> none(aval.shape.size(), 0), high = none;
  high.back() = lengths.back() - aval.shape.back();
  const Value padded = lax::pad(t, lax::full(t, Scalar::of(0.0), aval.dtype, {}), none, high, none);
  return lax::real(lax::fft(padded, FftType::kFft, lengths));
}

/// Each element of the last dimension represents two, except the first and, for an even length, the last.
Value irfft_transpose(const Value& t, const std::vector<std::int64_t>& lengths) {
  const Value x = lax::fft(t, FftType::kRfft, lengths);
  const Shape shape = x.aval().shape;
  const std::int64_t n = shape.back();
  double size = 1;
  for (const std::int64_t length : lengths) size *= static_cast<double>(length);
  const Value place = lax::iota(x, DType::kI32, shape, static_cast<std::int64_t>(shape.size()) - 1);
  const auto number = [&](double value) {
    return lax::full(x, Scalar::of(value), real_dtype(x.aval().dtype), shape);
  };
  const auto at = [&](std::int64_t i) {
    return lax::eq(place, lax::full(x, Scalar::of(i), DType::kI32, shape));
  };
  Value once = at(0);
  if (lengths.back() % 2 == 0) once = lax::logical_or(once, at(n - 1));
  const Value scale = lax::select(once, number(1 / size), number(2 / size));
  return lax::complex(lax::mul(lax::real(x), scale), lax::neg(lax::mul(lax::imag(x), scale)));
}

}  // namespace

const Primitive& fft_p() {
  static const Primitive p = rules::linear_in(
      {{0}},
      {
          .name = "fft",
          .shape = [](std::span<const Aval> inputs, const OpParams& params) -> std::vector<Aval> {
            const auto& p = params.as<FftParams>();
            const FftType type = type_of(p);
            const Aval& x = inputs[0];
            const bool real = type == FftType::kRfft;
            if (real ? x.dtype != DType::kF32 && x.dtype != DType::kF64 : !is_complex(x.dtype)) {
              fail<DTypeError>("expected {}, got {}; convert with astype",
                               real ? "f32 or f64" : "c64 or c128", name(x.dtype));
            }
            const std::size_t rank = p.lengths.size();
            if (rank < 1 || rank > 3 || x.shape.size() < rank) {
              fail<ShapeError>("expected one to three lengths, for the last dimensions, got {} for {}", rank,
                               to_string(x));
            }
            Shape needed = p.lengths, shape = x.shape;
            if (type == FftType::kIrfft) needed.back() = needed.back() / 2 + 1;
            if (!std::equal(needed.begin(), needed.end(), shape.end() - static_cast<std::ptrdiff_t>(rank)) ||
                std::ranges::any_of(needed, [](std::int64_t n) { return n < 1; })) {
              fail<ShapeError>("expected {} as the last sizes, each at least 1, got {}", to_string(needed),
                               to_string(x));
            }
            if (type == FftType::kRfft) shape.back() = shape.back() / 2 + 1;
            if (type == FftType::kIrfft) shape.back() = p.lengths.back();
            return {Aval{type == FftType::kIrfft ? real_dtype(x.dtype) : complex_dtype(x.dtype), shape}};
          },
          .sharding =
              [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
                return fft_rule(inputs, outputs, params.as<FftParams>());
              },
          .jvp = rules::linear_jvp(fft_p),
          .transpose = [](const TransposeCall& c) -> Tangents {
            const auto& p = c.params.as<FftParams>();
            const Value& t = *c.cotangents[0];
            switch (type_of(p)) {
              case FftType::kRfft:
                return {rfft_transpose(t, p.lengths)};
              case FftType::kIrfft:
                return {irfft_transpose(t, p.lengths)};
              default:
                return {lax::fft(t, type_of(p), p.lengths)};
            }
          },
          .batching =
              [](const BatchCall& call) { return call.builder.emit(fft_p(), call.params, call.inputs); },
          .flops =
              [](std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
                double size = 1;
                for (const std::int64_t n : params.as<FftParams>().lengths) size *= static_cast<double>(n);
                return 5 * std::log2(std::max(size, 2.0)) *
                       static_cast<double>(std::max(inputs[0].num_elements(), outputs[0].num_elements()));
              },
          .zero_padding = ZeroPadding::kCounts,
          .exchange = no_exchange,
          .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
            const auto& p = e.params.as<FftParams>();
            return {out.op("stablehlo.fft", e,
                           fmt::format("fft_type = #stablehlo<fft_type {}>, fft_length = {}",
                                       name_of(type_of(p)), mlir_array(p.lengths)))};
          },
      });
  return p;
}

}  // namespace lockstep::ir
