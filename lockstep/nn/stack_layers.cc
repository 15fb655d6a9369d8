// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/stack_layers.h"

#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/indexing.h"
#include "lockstep/ops/shape.h"
#include "lockstep/tree/paths.h"

namespace lockstep::nn::internal {

void stack_into(tree::TreeRef result, std::span<const tree::TreeRef> layers,
                const std::source_location& where) {
  CallSiteScope here(CallSite::from(where));
  if (layers.empty())
    fail<ShapeError>("[nn::stack_layers] expected at least one layer, got none{}", ops::at());
  auto stacked = [&](const std::string& path, const Array* const* arrays) {
    std::vector<Array> all;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      all.push_back(*arrays[i]);
      if (all[i].shape() == all[0].shape()) continue;
      fail<ShapeError>(
          "[nn::stack_layers] {} of layer {} is {}, but of layer 0 {}; stack layers of equal sizes{}", path,
          i, to_string(all[i].aval()), to_string(all[0].aval()), ops::at());
    }
    return stack(all, 0, where);
  };
  using Stacked = decltype(stacked);
  const auto call = [](void* function, const std::string& path, const Array* const* arrays) {
    return lockstep::internal::function_at<Stacked>(function)(path, arrays);
  };
  tree::internal::map_into(result, layers, {lockstep::internal::address_of(stacked), call},
                           /*with_paths=*/true);
}

void take_layer(tree::TreeRef stacked, std::int64_t i) {
  tree::internal::call_with_paths(stacked, true, [i](const std::string&, Array& array) { array = array[i]; });
}

std::int64_t count_of_stacked(tree::TreeRef stacked, const std::source_location& where) {
  CallSiteScope here(CallSite::from(where));
  std::optional<std::pair<std::string, std::int64_t>> first;
  tree::internal::call_with_paths(stacked, false, [&](const std::string& path, Array& array) {
    if (array.ndim() == 0) {
      fail<ShapeError>("[nn::unstack_layers] {} is {}: it has no first dimension, one for each layer{}", path,
                       to_string(array.aval()), ops::at());
    }
    if (!first) first.emplace(path, array.shape()[0]);
    if (array.shape()[0] == first->second) return;
    fail<ShapeError>("[nn::unstack_layers] {} has {} layers, but {} has {}{}", path, array.shape()[0],
                     first->first, first->second, ops::at());
  });
  if (!first) fail<ShapeError>("[nn::unstack_layers] expected arrays, got a tree without any{}", ops::at());
  return first->second;
}

}  // namespace lockstep::nn::internal
