// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/ffi_call.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "lockstep/base/fail.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir {
namespace {

const FfiCallParams& params_of(const OpParams& params) { return params.as<FfiCallParams>(); }

/// The rule that the user has given. A factor that only operands or only results have, and over which nothing
/// is summed, is whole: a kernel does not know which part it has.
ShardingRule sharding_of(std::span<const Aval> inputs, std::span<const Aval> outputs,
                         const OpParams& params) {
  const FfiCallParams& p = params_of(params);
  ShardingRule rule = ShardingRule::replicated(inputs, outputs);
  if (!p.dimensions) return rule;
  std::set<int> of_operands, of_results;
  for (std::size_t i = 0; i < p.dimensions->size(); ++i)
    for (const int factor : p.dimensions->at(i))
      (i < inputs.size() ? of_operands : of_results).insert(factor);
  std::map<int, int> numbers;
  for (const int factor : of_operands) {
    const bool summed = p.reduced && std::ranges::count(*p.reduced, factor) != 0;
    if (factor == ShardingRule::kWhole || !(summed || of_results.contains(factor))) continue;
    numbers[factor] = static_cast<int>(rule.factors.size());
    rule.factors.push_back({.combine = summed ? ShardingRule::Combine::kSum : ShardingRule::Combine::kNone});
  }
  for (std::size_t i = 0; i < p.dimensions->size(); ++i) {
    const bool operand = i < inputs.size();
    const Aval& aval = operand ? inputs[i] : outputs[i - inputs.size()];
    std::vector<int>& dims = operand ? rule.operands[i] : rule.results[i - inputs.size()];
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const auto found = numbers.find(p.dimensions->at(i)[d]);
      if (found == numbers.end()) continue;
      dims[d] = found->second;
      rule.factors[static_cast<std::size_t>(found->second)].size = aval.shape[d];
    }
  }
  rule.localize = [](const OpParams& given, const std::vector<Shape>&, const std::vector<Shape>& results) {
    FfiCallParams local = params_of(given);
    for (std::size_t i = 0; i < results.size(); ++i)
      std::ranges::copy(results[i], local.results[i].begin() + 1);
    return OpParams::of(std::move(local));
  };
  return rule;
}

std::vector<Value> batched(const BatchCall& call) {
  FfiCallParams p = params_of(call.params);
  if (!p.vmap_method) {
    fail<TraceError>(
        "[ffi_call] the kernel {} is called under vmap (at {}); say how with "
        "FfiCallOptions::vmap_method",
        p.target, CallSiteScope::current().to_string());
  }
  const auto method = static_cast<VmapMethod>(*p.vmap_method);
  const std::span<const Value> inputs = call.inputs;
  if (method == VmapMethod::kSequential) {
    std::vector<std::vector<Value>> parts(p.results.size());
    for (std::int64_t i = 0; i < call.size; ++i) {
      std::vector<Value> one;
      for (std::size_t k = 0; k < inputs.size(); ++k)
        one.push_back(call.batched[k] ? rules::example(inputs[k], i) : inputs[k]);
      const std::vector<Value> results = call.builder.emit(ffi_call_p(), call.params, one);
      for (std::size_t k = 0; k < results.size(); ++k)
        parts[k].push_back(lax::reshape(results[k], rules::prepended(1, results[k].aval().shape)));
    }
    std::vector<Value> results;
    for (const std::vector<Value>& each : parts)
      results.push_back(lax::concatenate(std::span<const Value>(each), 0));
    return results;
  }
  if (p.dimensions) {  // The examples are a further factor.
    int examples = 0;
    for (const std::vector<int>& dims : *p.dimensions)
      for (const int factor : dims) examples = std::max(examples, factor + 1);
    for (std::size_t i = 0; i < p.dimensions->size(); ++i) {
      const bool has = i >= inputs.size() || call.batched[i] || method == VmapMethod::kBroadcastAll;
      std::vector<int>& dims = p.dimensions->at(i);
      dims.insert(dims.begin(), has ? examples : ShardingRule::kWhole);
    }
  }
  for (std::vector<int>& result : p.results) result.insert(result.begin() + 1, static_cast<int>(call.size));
  return call.builder.emit(ffi_call_p(), OpParams::of(std::move(p)),
                           rules::operands_of_all_examples(call, method));
}

}  // namespace

const Primitive& ffi_call_p() {
  static const Primitive p = {
      .name = "ffi_call",
      .shape = [](std::span<const Aval>, const OpParams& params) -> std::vector<Aval> {
        std::vector<Aval> results;
        for (const std::vector<int>& each : params_of(params).results)
          results.push_back({static_cast<DType>(each[0]), Shape(each.begin() + 1, each.end())});
        return results;
      },
      .sharding = sharding_of,
      .jvp = [](const JvpCall& c) -> Tangents {
        fail<TraceError>(
            "[ffi_call] the kernel {} has no derivative (at {}); give it one with custom_jvp or "
            "custom_vjp",
            params_of(c.params).target, CallSiteScope::current().to_string());
      },
      .transpose = not_linear,
      .batching = batched,
      .flops = flops_of_results,
      .zero_padding = ZeroPadding::kCounts,
      .exchange = no_exchange,
      .lower = [](Lowering& out, const Equation& e) -> std::vector<std::string> {
        const FfiCallParams& p = params_of(e.params);
        std::vector<std::string> operands, types, results;
        for (std::size_t i = 0; i < e.inputs.size(); ++i) {
          operands.push_back(out.operand(e, i));
          types.push_back(out.operand_type(e, i));
        }
        for (std::size_t i = 0; i < e.outputs.size(); ++i) results.push_back(out.result_type(e, i));
        return out.ffi_call(p.target, p.attributes, operands, types, results);
      },
  };
  return p;
}

}  // namespace lockstep::ir
