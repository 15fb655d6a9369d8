// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/ffi_call.h"

#include <fmt/ranges.h>

#include <bit>

#include "lockstep/array/trace.h"
#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/ffi_call.h"

namespace lockstep::ffi {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F || c == '"' || c == '\\')
      out += fmt::format("\\{:02X}", byte);
    else
      out += c;
  }
  return out + "\"";
}

/// As MLIR has it.
std::string text_of(const Attribute& attribute) {
  struct Text {
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(std::int32_t value) const { return fmt::format("{} : i32", value); }
    std::string operator()(std::int64_t value) const { return fmt::format("{} : i64", value); }
    std::string operator()(float value) const {
      return fmt::format("0x{:08X} : f32", std::bit_cast<std::uint32_t>(value));
    }
    std::string operator()(double value) const {
      return fmt::format("0x{:016X} : f64", std::bit_cast<std::uint64_t>(value));
    }
    std::string operator()(const std::string& value) const { return quoted(value); }
    std::string operator()(const std::vector<std::int64_t>& values) const {
      return values.empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(values, ", "));
    }
  };
  return std::visit(Text(), attribute);
}

}  // namespace

std::vector<Array> ffi_call(const std::string& target, const std::vector<ResultType>& results,
                            const std::vector<Array>& operands, const FfiCallOptions& options) {
  CallSiteScope site(!results.empty() ? results[0].site : CallSiteScope::current());
  runtime::check_ffi_target(target);
  if (results.empty())
    fail<ShapeError>("[ffi_call] expected the types of at least one result of the kernel {} (at {})", target,
                     CallSiteScope::current().to_string());
  FfiCallParams params{target, "", {}, std::nullopt};
  for (const auto& [name, value] : options.attributes)
    params.attributes +=
        fmt::format("{}{} = {}", params.attributes.empty() ? "" : ", ", name, text_of(value));
  for (const ResultType& result : results) {
    std::vector<int>& numbers = params.results.emplace_back();
    numbers.push_back(static_cast<int>(result.dtype));
    for (const std::int64_t size : result.shape) numbers.push_back(static_cast<int>(size));
  }
  if (options.vmap_method) params.vmap_method = static_cast<std::int64_t>(*options.vmap_method);
  return apply_primitive(ffi_call_p(), OpParams::of(std::move(params)), operands);
}

Array ffi_call(const std::string& target, const ResultType& result, const std::vector<Array>& operands,
               const FfiCallOptions& options) {
  return ffi_call(target, std::vector<ResultType>{result}, operands, options).front();
}

}  // namespace lockstep::ffi
