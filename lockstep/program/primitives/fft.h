// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/apply.h"

namespace lockstep::ir {

const Primitive& fft_p();

/// The kind of a Fourier transform.
enum class FftType : std::uint8_t {
  kFft,    ///< c64 to c64, or c128 to c128
  kIfft,   ///< c64 to c64, the inverse
  kRfft,   ///< f32 to c64, or f64 to c128: the first lengths.back() / 2 + 1 elements of the last dimension
  kIrfft,  ///< the inverse of kRfft, with lengths.back() elements in the last dimension
};

struct FftParams {
  static constexpr std::array<std::string_view, 2> kFields = {"type", "lengths"};
  std::int64_t type;  ///< an FftType
  std::vector<std::int64_t> lengths;
};

namespace lax {

/// The Fourier transform over the last one to three dimensions, with these lengths; the inverse is divided by
/// their product.
template <Operand V>
V fft(const V& x, FftType type, std::vector<std::int64_t> lengths) {
  return apply1<V>(fft_p(), OpParams::of(FftParams{static_cast<std::int64_t>(type), std::move(lengths)}),
                   {x});
}

}  // namespace lax
}  // namespace lockstep::ir
