// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/callback.h"

#include <map>
#include <mutex>
#include <sstream>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir {
namespace {

struct Names {
  std::mutex mutex;
  std::map<std::string, std::int64_t> made;  // at each place
  std::map<std::string, std::weak_ptr<const HostFunction>> functions;
};

Names& names() {
  static Names& all = *new Names;  // never destroyed: programs may outlive main
  return all;
}

const CallbackParams& params_of(const OpParams& params) { return params.as<CallbackParams>(); }

std::vector<Aval> results_of(std::span<const Aval> inputs, const OpParams& params) {
  const CallbackParams& p = params_of(params);
  Shape leading;
  for (std::size_t level = 0; level < p.examples.size(); ++level) leading.push_back(p.examples[level][0]);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::size_t dimension = 0;
    for (const std::vector<int>& level : p.examples) {
      if (level.at(i + 1) == 0) continue;
      if (dimension >= inputs[i].shape.size() || inputs[i].shape[dimension++] != level[0])
        fail<ShapeError>("expected operand {} with a dimension of {} examples, got {}", i, level[0],
                         to_string(inputs[i]));
    }
  }
  std::vector<Aval> results;
  for (const std::vector<int>& each : p.results) {
    Shape shape = leading;
    shape.insert(shape.end(), each.begin() + 1, each.end());
    results.push_back({static_cast<DType>(each[0]), shape});
  }
  return results;
}

/// Examples may be on any device; a call has its operands whole.
ShardingRule by_example(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
  ShardingRule rule = ShardingRule::replicated(inputs, outputs);
  const std::vector<std::vector<int>>& examples = params_of(params).examples;
  std::vector<std::size_t> next(inputs.size(), 0);
  for (std::size_t level = 0; level < examples.size(); ++level) {
    const int factor = static_cast<int>(rule.factors.size());
    rule.factors.push_back({examples[level][0]});
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (examples[level][i + 1] != 0) rule.operands[i][next[i]++] = factor;
    for (auto& result : rule.results) result[level] = factor;
  }
  rule.localize = [](const OpParams& given, const std::vector<Shape>&, const std::vector<Shape>& results) {
    CallbackParams local = params_of(given);
    for (std::size_t level = 0; level < local.examples.size(); ++level)
      local.examples[level][0] = static_cast<int>(results.at(0)[level]);
    return OpParams::of(std::move(local));
  };
  return rule;
}

std::vector<Value> batched(const Primitive& primitive, const BatchCall& call) {
  CallbackParams p = params_of(call.params);
  const auto method = static_cast<VmapMethod>(p.vmap_method);
  if (method == VmapMethod::kSequential) {
    std::vector<int> level = {static_cast<int>(call.size)};
    for (const bool has : call.batched) level.push_back(has);
    p.examples.insert(p.examples.begin(), level);
    return call.builder.emit(primitive, OpParams::of(std::move(p)), call.inputs);
  }
  for (std::vector<int>& result : p.results) result.insert(result.begin() + 1, static_cast<int>(call.size));
  return call.builder.emit(primitive, OpParams::of(std::move(p)),
                           rules::operands_of_all_examples(call, method));
}

std::vector<std::string> lowered(Lowering& out, const Equation& e, bool effect) {
  const CallbackParams& p = params_of(e.params);
  std::vector<std::string> operands, types, results;
  for (std::size_t i = 0; i < e.inputs.size(); ++i) {
    operands.push_back(out.operand(e, i));
    types.push_back(out.operand_type(e, i));
  }
  for (std::size_t i = 0; i < e.outputs.size(); ++i) results.push_back(out.result_type(e, i));
  return out.host_call(
      kCallbackTarget, operands, types, results,
      fmt::format("function = \"{}\", examples = \"{}\", once = {:d} : i64",
                  static_cast<const std::string&>(p.function), examples_text(p.examples), p.once),
      effect);
}

Primitive callback(std::string name, const Primitive& (*self)(), bool effect) {
  Primitive p = {
      .name = name,
      .shape = results_of,
      .sharding = effect ? [](std::span<const Aval> inputs, std::span<const Aval> outputs,
                              const OpParams&) { return ShardingRule::replicated(inputs, outputs); }
                         : by_example,
      .jvp = [name](const JvpCall& c) -> Tangents {
        if (c.outputs.empty()) return {};
        fail<TraceError>(
            "[{}] has no derivative (at {}); give it one with custom_jvp or custom_vjp, or take "
            "stop_gradient of its operands",
            name, CallSiteScope::current().to_string());
      },
      .transpose = not_linear,
      .batching = [self](const BatchCall& call) { return batched(self(), call); },
      .flops = no_flops,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [effect](Lowering& out, const Equation& e) { return lowered(out, e, effect); },
  };
  p.has_effect = effect;
  return p;
}

}  // namespace

NamedHostFunction::NamedHostFunction(HostFunction function, const std::string& place)
    : function_(std::make_shared<const HostFunction>(std::move(function))) {
  Names& all = names();
  std::lock_guard lock(all.mutex);
  std::string text;
  for (const char c : place) text += c == '"' || c == '\\' || c == '\n' ? '_' : c;
  assign(fmt::format("{}#{}", text, all.made[text]++));
  std::erase_if(all.functions, [](const auto& entry) { return entry.second.expired(); });
  all.functions[*this] = function_;
}

std::shared_ptr<const HostFunction> NamedHostFunction::find(const std::string& name) {
  Names& all = names();
  std::lock_guard lock(all.mutex);
  const auto found = all.functions.find(name);
  return found == all.functions.end() ? nullptr : found->second.lock();
}

const Primitive& pure_callback_p() {
  static const Primitive p = callback("pure_callback", pure_callback_p, false);
  return p;
}

const Primitive& io_callback_p() {
  static const Primitive p = callback("io_callback", io_callback_p, true);
  return p;
}

std::string examples_text(const std::vector<std::vector<int>>& examples) {
  std::string text;
  for (const std::vector<int>& level : examples) {
    for (const int number : level) text += fmt::format("{} ", number);
    text += ';';
  }
  return text;
}

std::vector<std::vector<int>> examples_of(std::string_view text) {
  std::vector<std::vector<int>> examples;
  std::istringstream levels{std::string(text)};
  for (std::string level; std::getline(levels, level, ';');) {
    std::istringstream numbers(level);
    std::vector<int>& list = examples.emplace_back();
    for (int number; numbers >> number;) list.push_back(number);
  }
  return examples;
}

}  // namespace lockstep::ir
