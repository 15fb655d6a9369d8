// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/fft.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/complex.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/rearrange.h"
#include "lockstep/ops/shape.h"
#include "lockstep/program/primitives/fft.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::fft {
namespace {

using Numbers = std::vector<std::int64_t>;

/// The transforms with jax.numpy.fft's defaults and checks.
struct Transform {
  const char* name;
  ir::FftType type;
  std::size_t axes = 0;  ///< how many there must be; 0: any number
};

bool is_inverse(ir::FftType type) { return type == ir::FftType::kIfft || type == ir::FftType::kIrfft; }

/// The factor by which the results are multiplied.
double scale_of(const Transform& transform, const std::string& norm, const Numbers& lengths) {
  double size = 1;
  for (const std::int64_t length : lengths) size *= static_cast<double>(length);
  if (norm == "backward") return 1;
  if (norm == "ortho") return is_inverse(transform.type) ? std::sqrt(size) : 1 / std::sqrt(size);
  if (norm == "forward") return is_inverse(transform.type) ? size : 1 / size;
  fail("[fft::{}] expected the norm backward, ortho or forward, got \"{}\"{}", transform.name, norm,
       ops::at());
}

/// The axes, counted from 0, and the length of the transform along each.
std::pair<Numbers, Numbers> along(const Transform& transform, const Operand& x,
                                  const std::optional<Numbers>& s, const std::optional<Numbers>& given) {
  const auto rank = static_cast<std::int64_t>(x.shape().size());
  Numbers axes;
  if (given) {
    axes = *given;
  } else {
    const std::int64_t count = transform.axes != 0 ? static_cast<std::int64_t>(transform.axes)
                               : s                 ? static_cast<std::int64_t>(s->size())
                                                   : rank;
    for (std::int64_t i = -count; i < 0; ++i) axes.push_back(i);
  }
  if (axes.empty() || (transform.axes != 0 && axes.size() != transform.axes)) {
    fail<ShapeError>("[fft::{}] expected {} to transform along, got {} for {}{}", transform.name,
                     transform.axes != 0 ? fmt::format("{} axes", transform.axes) : "at least one axis",
                     axes.size(), to_string(x.aval()), ops::at());
  }
  const std::string operation = fmt::format("fft::{}", transform.name);
  for (std::int64_t& axis : axes) axis = ops::axis_of(operation, axis, rank, x.aval());
  Numbers sorted = axes;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) {
    fail<ShapeError>("[fft::{}] expected each axis once, got [{}]{}", transform.name, fmt::join(axes, ", "),
                     ops::at());
  }
  if (s && s->size() != axes.size()) {
    fail<ShapeError>("[fft::{}] expected a length for each axis, got {} for {} axes{}", transform.name,
                     s->size(), axes.size(), ops::at());
  }
  Numbers lengths;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t size = x.shape()[static_cast<std::size_t>(axes[i])];
    const bool halved = transform.type == ir::FftType::kIrfft && i + 1 == axes.size();
    lengths.push_back(s ? (*s)[i] : halved ? 2 * (size - 1) : size);
    if (lengths.back() < 1) {
      fail<ShapeError>("[fft::{}] expected lengths of at least 1, got {} along axis {} of {}{}",
                       transform.name, lengths.back(), axes[i], to_string(x.aval()), ops::at());
    }
  }
  return {axes, lengths};
}

/// x cut, or padded with zeros, to this size along the axis.
Array of_size(const Array& x, std::int64_t axis, std::int64_t size) {
  const auto i = static_cast<std::size_t>(axis);
  const std::int64_t now = x.shape()[i];
  if (now == size) return x;
  Numbers none(x.shape().size(), 0), high = none;
  high[i] = size - now;
  return ir::lax::pad(x, zeros({}, x.dtype()), none, high, none);
}

/// The transform over the last dimensions, which XLA does for three at once.
Array transformed(const Array& x, ir::FftType type, const Numbers& lengths) {
  if (lengths.size() <= 3) return ir::lax::fft(x, type, lengths);
  const std::int64_t rank = x.ndim(), first = rank - static_cast<std::int64_t>(lengths.size());
  const auto others = [&](Array y, ir::FftType each) {
    for (std::size_t i = 0; i + 1 < lengths.size(); ++i) {
      const std::int64_t axis = first + static_cast<std::int64_t>(i);
      y = moveaxis(ir::lax::fft(moveaxis(y, axis, -1), each, {lengths[i]}), -1, axis);
    }
    return y;
  };
  if (type == ir::FftType::kIrfft) return ir::lax::fft(others(x, ir::FftType::kIfft), type, {lengths.back()});
  return others(ir::lax::fft(x, type, {lengths.back()}),
                is_inverse(type) ? ir::FftType::kIfft : ir::FftType::kFft);
}

Array transform_of(const Transform& transform, const Operand& x, const std::optional<Numbers>& s,
                   const std::optional<Numbers>& given_axes, const std::string& norm) {
  CallSiteScope here(x.site());
  const DType dtype = x.type().dtype;
  if (is_complex(dtype) && transform.type == ir::FftType::kRfft) {
    fail<DTypeError>("[fft::{}] expected real numbers, got {}{}; take real() of them", transform.name,
                     to_string(x.aval()), ops::at());
  }
  const DType parts = real_dtype(complex_dtype(dtype));
  const auto [axes, lengths] = along(transform, x, s, given_axes);
  const double scale = scale_of(transform, norm, lengths);
  const std::string key = fmt::format("{} {} {}", fmt::join(axes, ","), fmt::join(lengths, ","), norm);
  return ops::run(fmt::format("fft::{}", transform.name), key, {x.as_array()}, [&](ops::Tracers t) {
    Array y = astype(t[0], transform.type == ir::FftType::kRfft ? parts : complex_dtype(parts));
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const bool halved = transform.type == ir::FftType::kIrfft && i + 1 == axes.size();
      y = of_size(y, axes[i], halved ? lengths[i] / 2 + 1 : lengths[i]);
    }
    // The axes last, in their order, and back.
    Numbers order, back(static_cast<std::size_t>(y.ndim()));
    for (std::int64_t d = 0; d < y.ndim(); ++d)
      if (std::ranges::find(axes, d) == axes.end()) order.push_back(d);
    order.insert(order.end(), axes.begin(), axes.end());
    for (std::size_t i = 0; i < order.size(); ++i)
      back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    y = ir::lax::transpose(transformed(ir::lax::transpose(y, order), transform.type, lengths), back);
    return scale == 1 ? y : y * scale;
  });
}

Array along_one(const char* name, ir::FftType type, const Operand& x, const FftOptions& options) {
  return transform_of({name, type}, x, options.n ? std::optional(Numbers{*options.n}) : std::nullopt,
                      Numbers{options.axis}, options.norm);
}

/// "forward" for "backward", and the other way round.
std::string other_norm(const std::string& norm) {
  return norm == "backward" ? "forward" : norm == "forward" ? "backward" : norm;
}

Array frequencies(std::int64_t n, double d, std::int64_t count) {
  const Array place = arange(count, DType::kI32);
  const Array number = where(place < (n + 1) / 2, place, place - n);
  return astype(number, DType::kF32) / static_cast<float>(d * static_cast<double>(n));
}

void check_frequencies(const char* name, std::int64_t n) {
  if (n < 1) fail<ShapeError>("[fft::{}] expected a length of at least 1, got {}{}", name, n, ops::at());
}

Array shifted(const Operand& x, const std::optional<Numbers>& given, bool back) {
  CallSiteScope here(x.site());
  Numbers axes = given.value_or(Numbers()), shifts;
  if (!given) {
    axes.resize(x.shape().size());
    std::iota(axes.begin(), axes.end(), std::int64_t{0});
  }
  const char* name = back ? "fft::ifftshift" : "fft::fftshift";
  for (std::int64_t& axis : axes) {
    axis = ops::axis_of(name, axis, static_cast<std::int64_t>(x.shape().size()), x.aval());
    const std::int64_t size = x.shape()[static_cast<std::size_t>(axis)];
    shifts.push_back(back ? -(size / 2) : size / 2);
  }
  return axes.empty() ? x.as_array() : roll(x, shifts, axes);
}

}  // namespace

Array fft(const Operand& x, FftOptions options) { return along_one("fft", ir::FftType::kFft, x, options); }
Array ifft(const Operand& x, FftOptions options) { return along_one("ifft", ir::FftType::kIfft, x, options); }
Array rfft(const Operand& x, FftOptions options) { return along_one("rfft", ir::FftType::kRfft, x, options); }
Array irfft(const Operand& x, FftOptions options) {
  return along_one("irfft", ir::FftType::kIrfft, x, options);
}

Array hfft(const Operand& x, FftOptions options) {
  CallSiteScope here(x.site());
  options.norm = other_norm(options.norm);
  return along_one("hfft", ir::FftType::kIrfft, conj(astype(x, complex_dtype(x.type().dtype))), options);
}

Array ihfft(const Operand& x, FftOptions options) {
  CallSiteScope here(x.site());
  options.norm = other_norm(options.norm);
  return conj(along_one("ihfft", ir::FftType::kRfft, x, options));
}

Array fftn(const Operand& x, FftnOptions o) {
  return transform_of({"fftn", ir::FftType::kFft}, x, o.s, o.axes, o.norm);
}
Array ifftn(const Operand& x, FftnOptions o) {
  return transform_of({"ifftn", ir::FftType::kIfft}, x, o.s, o.axes, o.norm);
}
Array rfftn(const Operand& x, FftnOptions o) {
  return transform_of({"rfftn", ir::FftType::kRfft}, x, o.s, o.axes, o.norm);
}
Array irfftn(const Operand& x, FftnOptions o) {
  return transform_of({"irfftn", ir::FftType::kIrfft}, x, o.s, o.axes, o.norm);
}
Array fft2(const Operand& x, FftnOptions o) {
  return transform_of({"fft2", ir::FftType::kFft, 2}, x, o.s, o.axes, o.norm);
}
Array ifft2(const Operand& x, FftnOptions o) {
  return transform_of({"ifft2", ir::FftType::kIfft, 2}, x, o.s, o.axes, o.norm);
}
Array rfft2(const Operand& x, FftnOptions o) {
  return transform_of({"rfft2", ir::FftType::kRfft, 2}, x, o.s, o.axes, o.norm);
}
Array irfft2(const Operand& x, FftnOptions o) {
  return transform_of({"irfft2", ir::FftType::kIrfft, 2}, x, o.s, o.axes, o.norm);
}

Array fftfreq(std::int64_t n, double d) {
  check_frequencies("fftfreq", n);
  return frequencies(n, d, n);
}

Array rfftfreq(std::int64_t n, double d) {
  check_frequencies("rfftfreq", n);
  return astype(arange(n / 2 + 1, DType::kI32), DType::kF32) / static_cast<float>(d * static_cast<double>(n));
}

Array fftshift(const Operand& x, std::optional<std::vector<std::int64_t>> axes) {
  return shifted(x, axes, false);
}
Array ifftshift(const Operand& x, std::optional<std::vector<std::int64_t>> axes) {
  return shifted(x, axes, true);
}

}  // namespace lockstep::fft
