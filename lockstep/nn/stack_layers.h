// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>
#include <span>
#include <vector>

#include "lockstep/tree/tree.h"

/// Layers of one structure as one tree, for a scan over them: XLA then compiles one layer instead of all.
///
///   const Layer stacked = nn::stack_layers(layers);
///   auto apply = [](Array x, const Layer& layer) { return std::pair(layer(x), std::tuple<>()); };
///   x = scan(apply, x, stacked).first;
namespace lockstep::nn {

namespace internal {
void stack_into(tree::TreeRef result, std::span<const tree::TreeRef> layers,
                const std::source_location& where);
void take_layer(tree::TreeRef stacked, std::int64_t i);
std::int64_t count_of_stacked(tree::TreeRef stacked, const std::source_location& where);
}  // namespace internal

/// The first layer, in which each array is that of all layers, stacked along a new first dimension. Throws
/// ShapeError if there are no layers, if arrays in the same place have different shapes, or if one layer has
/// an array that another one does not have.
template <class Layer>
Layer stack_layers(const std::vector<Layer>& layers,
                   std::source_location where = std::source_location::current()) {
  std::vector<tree::TreeRef> all;
  for (const Layer& layer : layers) all.push_back(tree::tree_ref(layer));
  Layer result = layers.empty() ? Layer() : layers[0];
  internal::stack_into(tree::tree_ref(result), all, where);
  return result;
}

/// The layers of a stacked one. Throws ShapeError unless its arrays have one first size.
template <class Layer>
std::vector<Layer> unstack_layers(const Layer& stacked,
                                  std::source_location where = std::source_location::current()) {
  std::vector<Layer> layers;
  const std::int64_t count = internal::count_of_stacked(tree::tree_ref(stacked), where);
  for (std::int64_t i = 0; i < count; ++i)
    internal::take_layer(tree::tree_ref(layers.emplace_back(stacked)), i);
  return layers;
}

}  // namespace lockstep::nn
