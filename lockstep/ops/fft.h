// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/ops/operand.h"

/// Fourier transforms, with jax.numpy.fft's names and meanings: of f64 and c128 in c128, of other dtypes in
/// c64 (real numbers in f32). All have derivatives in both modes.
///
/// Split dimensions stay split. Of a transform over several dimensions, a dimension that is split costs one
/// all-to-all, after which the axes that split it split the next one of the axes (of an inverse, the previous
/// one): fftn of P("x") has P(None, "x"), ifftn of that P("x"). Of a transform over one dimension of several,
/// its axes move to another dimension. A complex transform of the only dimension takes three all-to-alls,
/// where the square of the number of devices divides its length. Only the last dimension of a real transform
/// has to be whole.
namespace lockstep::fft {

struct FftOptions {
  std::optional<std::int64_t> n =
      {};  ///< the length, at least 1, to which the dimension is cut or padded with zeros
  std::int64_t axis = -1;

  /// Normalization. "backward": inverse transforms are divided by the length; "forward": the others are;
  /// "ortho": all are divided by its square root.
  std::string norm = "backward";
};

/// The transform along one dimension. rfft transforms real numbers (DTypeError for others) and returns the
/// first n / 2 + 1 elements; the other elements are their conjugates. irfft is its inverse, with n elements
/// (by default 2 * (size - 1)). hfft and ihfft are for data whose transform is real. Throw ShapeError for an
/// axis out of range, or a length below 1.
Array fft(const Operand& x, FftOptions options = {});
Array ifft(const Operand& x, FftOptions options = {});
Array rfft(const Operand& x, FftOptions options = {});
Array irfft(const Operand& x, FftOptions options = {});
Array hfft(const Operand& x, FftOptions options = {});
Array ihfft(const Operand& x, FftOptions options = {});

struct FftnOptions {
  std::optional<std::vector<std::int64_t>> s = {};  ///< the lengths, one for each axis

  /// By default all axes, or the last s->size(); for fft2 and similar functions the last two. No axis may
  /// appear twice.
  std::optional<std::vector<std::int64_t>> axes = {};
  std::string norm = "backward";
};

/// Transforms along several dimensions. In rfftn and irfftn the real transform is along the last axis.
Array fftn(const Operand& x, FftnOptions options = {});
Array ifftn(const Operand& x, FftnOptions options = {});
Array rfftn(const Operand& x, FftnOptions options = {});
Array irfftn(const Operand& x, FftnOptions options = {});
Array fft2(const Operand& x, FftnOptions options = {});
Array ifft2(const Operand& x, FftnOptions options = {});
Array rfft2(const Operand& x, FftnOptions options = {});
Array irfft2(const Operand& x, FftnOptions options = {});

/// The frequencies of a transform of n samples at intervals of d: f32[n]; for rfft, f32[n / 2 + 1].
Array fftfreq(std::int64_t n, double d = 1);
Array rfftfreq(std::int64_t n, double d = 1);

/// fftshift moves frequency 0 to the middle of the axes (by default all); ifftshift moves it back.
Array fftshift(const Operand& x, std::optional<std::vector<std::int64_t>> axes = std::nullopt);
Array ifftshift(const Operand& x, std::optional<std::vector<std::int64_t>> axes = std::nullopt);

}  // namespace lockstep::fft
