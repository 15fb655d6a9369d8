#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/ops/operand.h"

/// Fourier's transforms, with jax.numpy.fft's names and meanings. Of real numbers but f64 (which are computed
/// as f32) and of c64; f64 is a DTypeError, for its transforms would be complex numbers of 128 bits.
/// Transforms are linear: all have derivatives both ways. Dimensions that are not transformed may be split
/// over devices.
namespace lockstep::fft {

struct FftOptions {
  std::optional<std::int64_t> n =
      {};  ///< the length: the dimension is cut, or padded with zeros, to it; at least 1
  std::int64_t axis = -1;

  /// By what results are divided: "backward": those of an inverse by the length; "ortho": all by its root;
  /// "forward": those that are no inverse.
  std::string norm = "backward";
};

/// The transform along one dimension. rfft is that of real numbers (DTypeError for others), and gives the
/// first n / 2 + 1 elements, of which the others are conjugates; irfft is its inverse, of n elements (by
/// default 2 * (size - 1)). hfft and ihfft are the same for numbers whose transform is real. Throw ShapeError
/// for an axis that is not there, or a length below 1.
Array fft(const Operand& x, FftOptions options = {});
Array ifft(const Operand& x, FftOptions options = {});
Array rfft(const Operand& x, FftOptions options = {});
Array irfft(const Operand& x, FftOptions options = {});
Array hfft(const Operand& x, FftOptions options = {});
Array ihfft(const Operand& x, FftOptions options = {});

struct FftnOptions {
  std::optional<std::vector<std::int64_t>> s = {};  ///< the lengths, one for each axis

  /// By default all, or the last s->size(); of the functions that end in 2, the last two. Each once.
  std::optional<std::vector<std::int64_t>> axes = {};
  std::string norm = "backward";
};

/// Along several dimensions. Of rfftn and irfftn the last axis is the one of real numbers.
Array fftn(const Operand& x, FftnOptions options = {});
Array ifftn(const Operand& x, FftnOptions options = {});
Array rfftn(const Operand& x, FftnOptions options = {});
Array irfftn(const Operand& x, FftnOptions options = {});
Array fft2(const Operand& x, FftnOptions options = {});
Array ifft2(const Operand& x, FftnOptions options = {});
Array rfft2(const Operand& x, FftnOptions options = {});
Array irfft2(const Operand& x, FftnOptions options = {});

/// The frequencies of a transform of length n of samples that are d apart, f32[n]; of rfft, f32[n / 2 + 1].
Array fftfreq(std::int64_t n, double d = 1);
Array rfftfreq(std::int64_t n, double d = 1);

/// With frequency 0 in the middle of the axes (by default all), and back.
Array fftshift(const Operand& x, std::optional<std::vector<std::int64_t>> axes = std::nullopt);
Array ifftshift(const Operand& x, std::optional<std::vector<std::int64_t>> axes = std::nullopt);

}  // namespace lockstep::fft
