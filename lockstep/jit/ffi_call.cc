// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/ffi_call.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <sstream>

#include "lockstep/array/trace.h"
#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/ffi_call.h"

namespace lockstep::ffi {
namespace {

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
    std::string operator()(const std::string& value) const { return ir::mlir_string(value); }
    std::string operator()(const std::vector<std::int64_t>& values) const { return ir::mlir_array(values); }
  };
  return std::visit(Text(), attribute);
}

/// Reads a sharding rule. The names of dimensions are numbered in the order in which they come.
class RuleReader {
 public:
  RuleReader(const std::string& target, const FfiCallOptions& options) : target_(target), options_(options) {}

  /// Into the parameters, for operands and results of these shapes.
  void read(const std::vector<Shape>& operands, const std::vector<Shape>& results,
            ir::FfiCallParams& params) {
    const std::string& rule = options_.sharding_rule;
    const std::size_t arrow = rule.find("->");
    if (arrow == std::string::npos) wrong("expected operands -> results");
    params.dimensions.emplace();
    read_side("operand", rule.substr(0, arrow), operands, *params.dimensions);
    const int of_operands = static_cast<int>(numbers_.size());
    read_side("result", rule.substr(arrow + 2), results, *params.dimensions);
    if (options_.reduction_factors.empty()) return;
    params.reduced.emplace();
    for (const std::string& name : options_.reduction_factors) {
      const auto found = numbers_.find(name);
      if (found == numbers_.end() || found->second >= of_operands || of_results_.contains(found->second))
        wrong(fmt::format("expected names that only operands have in reduction_factors, got '{}'", name));
      params.reduced->push_back(found->second);
    }
  }

 private:
  void read_side(const char* what, const std::string& text, const std::vector<Shape>& shapes,
                 std::vector<std::vector<int>>& dimensions) {
    std::vector<std::string> parts(1);
    for (const char c : text) {
      if (c == ',')
        parts.emplace_back();
      else
        parts.back() += c;
    }
    if (parts.size() != shapes.size() && !(shapes.empty() && parts.size() == 1 && is_blank(parts[0])))
      wrong(fmt::format("expected {} {}s, got {}", shapes.size(), what, parts.size()));
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      std::vector<int>& dims = dimensions.emplace_back();
      std::istringstream names(parts[i]);
      for (std::string name; names >> name;) dims.push_back(number_of(name, dims, shapes[i]));
      if (dims.size() != shapes[i].size()) {
        wrong(fmt::format("expected a name for each dimension of {} {}, {}, got {}", what, i,
                          to_string(shapes[i]), dims.size()));
      }
      if (*what == 'r') of_results_.insert(dims.begin(), dims.end());
    }
  }

  int number_of(const std::string& name, const std::vector<int>& before, const Shape& shape) {
    if (name == "*") return -1;
    const int number = numbers_.try_emplace(name, static_cast<int>(numbers_.size())).first->second;
    if (std::ranges::count(before, number) != 0) wrong(fmt::format("'{}' comes twice in an array", name));
    if (before.size() < shape.size()) {
      const std::int64_t size = shape[before.size()];
      const std::int64_t known = sizes_.try_emplace(number, size).first->second;
      if (known != size) wrong(fmt::format("'{}' has the sizes {} and {}", name, known, size));
    }
    return number;
  }

  static bool is_blank(const std::string& text) { return text.find_first_not_of(' ') == std::string::npos; }

  [[noreturn]] void wrong(const std::string& what) const {
    fail<ShapeError>("[ffi_call] the sharding rule \"{}\" of the kernel {}: {} (at {})",
                     options_.sharding_rule, target_, what, CallSiteScope::current().to_string());
  }

  const std::string& target_;
  const FfiCallOptions& options_;
  std::map<std::string, int> numbers_;
  std::map<int, std::int64_t> sizes_;
  std::set<int> of_results_;
};

}  // namespace

std::vector<Array> ffi_call(const std::string& target, const std::vector<ResultType>& results,
                            const std::vector<Array>& operands, const FfiCallOptions& options) {
  CallSiteScope site(!results.empty() ? results[0].site : CallSiteScope::current());
  runtime::check_ffi_target(target);
  if (results.empty())
    fail<ShapeError>("[ffi_call] expected the types of at least one result of the kernel {} (at {})", target,
                     CallSiteScope::current().to_string());
  ir::FfiCallParams params{target, "", {}, std::nullopt};
  if (!options.sharding_rule.empty()) {
    std::vector<Shape> of_operands, of_results;
    for (const Array& operand : operands) of_operands.push_back(operand.shape());
    for (const ResultType& result : results) of_results.push_back(result.shape);
    RuleReader(target, options).read(of_operands, of_results, params);
  }
  for (const auto& [name, value] : options.attributes)
    params.attributes +=
        fmt::format("{}{} = {}", params.attributes.empty() ? "" : ", ", name, text_of(value));
  for (const ResultType& result : results) {
    std::vector<int>& numbers = params.results.emplace_back();
    numbers.push_back(static_cast<int>(result.dtype));
    for (const std::int64_t size : result.shape) numbers.push_back(static_cast<int>(size));
  }
  if (options.vmap_method) params.vmap_method = static_cast<std::int64_t>(*options.vmap_method);
  return apply_primitive(ir::ffi_call_p(), ir::OpParams::of(std::move(params)), operands);
}

Array ffi_call(const std::string& target, const ResultType& result, const std::vector<Array>& operands,
               const FfiCallOptions& options) {
  return ffi_call(target, std::vector<ResultType>{result}, operands, options).front();
}

}  // namespace lockstep::ffi
