// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/sharding_rule.h"

namespace lockstep::ir {

std::string ShardingRule::to_string() const {
  auto tensors = [](const std::vector<std::vector<int>>& all) {
    std::string text;
    for (std::size_t t = 0; t < all.size(); ++t) {
      text += t == 0 ? "[" : ",[";
      for (std::size_t d = 0; d < all[t].size(); ++d) {
        if (d != 0) text += ',';
        if (all[t][d] == kWhole)
          text += '*';
        else if (all[t][d] < 26)
          text += static_cast<char>('a' + all[t][d]);
        else
          text += "f" + std::to_string(all[t][d]);
      }
      text += ']';
    }
    return text;
  };
  return tensors(operands) + "->" + tensors(results);
}

ShardingRule ShardingRule::replicated(std::span<const Aval> inputs, std::span<const Aval> outputs) {
  ShardingRule rule;
  for (const Aval& aval : inputs) rule.operands.emplace_back(aval.shape.size(), kWhole);
  for (const Aval& aval : outputs) rule.results.emplace_back(aval.shape.size(), kWhole);
  return rule;
}

ShardingRule ShardingRule::elementwise(std::span<const Aval> inputs, std::span<const Aval> outputs) {
  ShardingRule rule;
  std::vector<int> dims;
  for (std::int64_t size : outputs.front().shape) {
    dims.push_back(static_cast<int>(rule.factors.size()));
    rule.factors.push_back({size});
  }
  for (const Aval& aval : inputs) rule.operands.push_back(aval.shape.empty() ? std::vector<int>{} : dims);
  for (std::size_t i = 0; i < outputs.size(); ++i) rule.results.push_back(dims);
  return rule;
}

}  // namespace lockstep::ir
