// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/debug_calls.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/base/half.h"
#include "lockstep/collectives/ffi_call.h"
#include "lockstep/program/aval.h"
#include "lockstep/runtime/runtime.h"
#include "xla/ffi/api/c_api.h"

namespace lockstep::runtime {
namespace {

using collectives::ffi_number;
using collectives::ffi_text;

std::mutex failures_mutex;
std::map<std::pair<Fingerprint, int>, FailedCheck> failures;
std::string prefix;

/// An operand, with its elements as text and as numbers.
struct Operand {
  XLA_FFI_DataType type;
  Shape shape;
  const char* data;

  template <class T>
  T at(std::int64_t i) const {
    T value;
    std::memcpy(&value, data + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return value;
  }

  /// The value of element i of a floating dtype narrower than f32.
  float narrow_float(std::int64_t i) const {
    return narrow_float_value(*dtype(), data + static_cast<std::size_t>(i) * size_of(*dtype()));
  }

  std::optional<DType> dtype() const { return collectives::dtype_of_ffi(type); }
};

/// The shortest text that reads back as the same number; an integer ends with a point, and as a scalar with
/// ".0".
template <class T>
std::string real_text(T value, bool alone) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == text.npos) return text + (alone ? ".0" : ".");
  if (!alone && text.ends_with(".0")) text.pop_back();
  return text;
}

template <class T>
std::string complex_text(T real, T imag, bool alone) {
  return fmt::format("({}{}{}j)", real_text(real, alone), std::signbit(imag) ? "" : "+",
                     real_text(imag, alone));
}

std::string element_text(const Operand& x, std::int64_t i, bool alone) {
  switch (x.type) {
    case XLA_FFI_DataType_PRED:
      return x.at<bool>(i) ? "True" : "False";
    case XLA_FFI_DataType_S8:
      return std::to_string(x.at<std::int8_t>(i));
    case XLA_FFI_DataType_S16:
      return std::to_string(x.at<std::int16_t>(i));
    case XLA_FFI_DataType_S32:
      return std::to_string(x.at<std::int32_t>(i));
    case XLA_FFI_DataType_S64:
      return std::to_string(x.at<std::int64_t>(i));
    case XLA_FFI_DataType_U8:
      return std::to_string(x.at<std::uint8_t>(i));
    case XLA_FFI_DataType_U16:
      return std::to_string(x.at<std::uint16_t>(i));
    case XLA_FFI_DataType_U32:
      return std::to_string(x.at<std::uint32_t>(i));
    case XLA_FFI_DataType_U64:
      return std::to_string(x.at<std::uint64_t>(i));
    case XLA_FFI_DataType_F16:
    case XLA_FFI_DataType_BF16:
    case XLA_FFI_DataType_F8E4M3FN:
    case XLA_FFI_DataType_F8E5M2:
      return real_text(x.narrow_float(i), alone);
    case XLA_FFI_DataType_F32:
      return real_text(x.at<float>(i), alone);
    case XLA_FFI_DataType_F64:
      return real_text(x.at<double>(i), alone);
    case XLA_FFI_DataType_C64:
      return complex_text(x.at<float>(2 * i), x.at<float>(2 * i + 1), alone);
    case XLA_FFI_DataType_C128:
      return complex_text(x.at<double>(2 * i), x.at<double>(2 * i + 1), alone);
    default:
      return "?";
  }
}

/// As NumPy prints: of a dimension longer than this, in an array of many elements, the first and last three.
constexpr std::int64_t kManyElements = 1000, kEdge = 3;

void append(std::string& out, const Operand& x, std::size_t dimension, std::int64_t offset, bool cut) {
  if (dimension == x.shape.size()) {
    out += element_text(x, offset, x.shape.empty());
    return;
  }
  std::int64_t stride = 1;
  for (std::size_t d = dimension + 1; d < x.shape.size(); ++d) stride *= x.shape[d];
  const std::int64_t size = x.shape[dimension];
  out += '[';
  for (std::int64_t i = 0; i < size; ++i) {
    if (i != 0) out += ' ';
    if (cut && i == kEdge && size > 2 * kEdge) {
      out += "... ";
      i = size - kEdge;
    }
    append(out, x, dimension + 1, offset + i * stride, cut);
  }
  out += ']';
}

std::string text_of(const Operand& x) {
  std::string out;
  append(out, x, 0, 0, num_elements(x.shape) > kManyElements);
  return out;
}

std::string formatted(std::string_view format, const std::vector<Operand>& operands) {
  std::string out;
  std::size_t next = 0;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '{' && i + 1 < format.size() && format[i + 1] == '}') {
      out += text_of(operands[next++]);
      ++i;
    } else {
      out += format[i];
      if (format[i] == '{' || format[i] == '}') ++i;
    }
  }
  return out;
}

std::string process_text() {
  const Runtime& runtime = Runtime::get();
  return fmt::format("process {} of {}", runtime.process_index(), runtime.process_count());
}

void print(const std::string& text) {
  const std::string line = prefix + text + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

void check(std::string_view name, const Operand& x, std::string_view site) {
  const std::optional<DType> dtype = x.dtype();
  if (!dtype || !is_inexact(*dtype)) return;
  const std::int64_t n = num_elements(x.shape);
  std::int64_t nans = 0, infinities = 0, first = -1;
  auto look = [&](std::int64_t i, double value) {
    if (std::isfinite(value)) return;
    (std::isnan(value) ? nans : infinities) += 1;
    if (first < 0) first = i;
  };
  for (std::int64_t i = 0; i < n; ++i) {
    switch (*dtype) {
      case DType::kF64:
        look(i, x.at<double>(i));
        break;
      case DType::kF32:
        look(i, x.at<float>(i));
        break;
      case DType::kC64:
        look(i, x.at<float>(2 * i) + x.at<float>(2 * i + 1));
        break;
      case DType::kC128:
        look(i, x.at<double>(2 * i) + x.at<double>(2 * i + 1));
        break;
      default:
        look(i, x.narrow_float(i));
    }
  }
  if (first < 0) return;
  Shape index(x.shape.size());
  for (std::size_t d = x.shape.size(); d-- > 0; first /= x.shape[d]) index[d] = first % x.shape[d];
  fail(
      "[check_finite] {} ({}) has {} NaN and {} infinite values among its {} elements, the first at {} (in "
      "{}; at {})",
      name, to_string(Aval{*dtype, x.shape}), nans, infinities, n, to_string(index), process_text(), site);
}

void execute_debug_call(const XLA_FFI_CallFrame& frame) {
  std::vector<Operand> operands;
  std::int32_t position = 0;
  for (std::int64_t i = 0; i < frame.args.size; ++i) {
    const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(frame.args.args[i]);
    if (i == 0)
      std::memcpy(&position, buffer.data, sizeof position);
    else if (buffer.dtype != XLA_FFI_DataType_TOKEN)
      operands.push_back({buffer.dtype, Shape(buffer.dims, buffer.dims + buffer.rank),
                          static_cast<const char*>(buffer.data)});
  }
  if (ffi_number(frame, "check") == 0) {
    if (ffi_number(frame, "once") != 0 && position != 0) return;
    print(formatted(ffi_text(frame, "text"), operands));
    return;
  }
  try {
    for (const Operand& operand : operands) check(ffi_text(frame, "text"), operand, ffi_text(frame, "site"));
  } catch (...) {
    note_failed_call(static_cast<Fingerprint>(ffi_number(frame, "program")), position,
                     std::current_exception(), ffi_number(frame, "once") != 0);
    throw;
  }
}

XLA_FFI_Error* handle_debug_call(XLA_FFI_CallFrame* frame) {
  return collectives::handle_ffi_call(*frame, execute_debug_call);
}

}  // namespace

void set_debug_prefix(std::string text) { prefix = std::move(text); }

void* debug_handler() { return reinterpret_cast<void*>(&handle_debug_call); }

void note_failed_call(Fingerprint program, int position, std::exception_ptr cause, bool everywhere) {
  std::lock_guard lock(failures_mutex);
  failures[{program, position}] = {std::move(cause), everywhere};
}

FailedCheck take_failed_check(Fingerprint program, int position) {
  std::lock_guard lock(failures_mutex);
  auto found = failures.find({program, position});
  if (found == failures.end()) return {};
  FailedCheck failure = found->second;
  failures.erase(found);
  return failure;
}

}  // namespace lockstep::runtime
