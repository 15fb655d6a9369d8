// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <optional>
#include <source_location>

#include "lockstep/array/device_put.h"
#include "lockstep/array/host_memory.h"
#include "lockstep/array/host_view.h"
#include "lockstep/array/multihost.h"
#include "lockstep/tree/tree.h"

namespace lockstep {

namespace tree {
/// A tree that is neither one array nor elements of which one is made.
template <class Tree>
concept Placeable = !std::convertible_to<const Tree&, Array> && !std::convertible_to<const Tree&, HostView> &&
                    !std::convertible_to<const Tree&, HostMemory>;
}  // namespace tree

/// device_put for each array of a tree (lockstep/tree/visit.h says what a tree is), such as random::Key. For
/// a sharding of each array, map over the tree with tree::map_with_path.
template <tree::Placeable Tree>
Tree device_put(const Tree& tree, const Sharding& sharding,
                std::source_location where = std::source_location::current()) {
  return tree::map([&](const Array& x) { return device_put(x, sharding, where); }, tree);
}

/// jax.block_until_ready: blocks until each array of a tree, or this array, is computed, and returns the
/// tree. Throws the first error of a computation that made one.
template <class Tree>
const Tree& block_until_ready(const Tree& tree,
                              std::source_location where = std::source_location::current()) {
  for (const Array& each : tree::leaves(tree)) each.block_until_ready(where);
  return tree;
}

namespace multihost {

/// process_allgather and broadcast_one_to_all for each array of a tree, in the tree's order.
template <tree::Placeable Tree>
Tree process_allgather(const Tree& tree, bool tiled = false,
                       std::source_location where = std::source_location::current()) {
  return tree::map([&](const Array& x) { return process_allgather(x, tiled, where); }, tree);
}
template <tree::Placeable Tree>
Tree broadcast_one_to_all(const Tree& tree, std::optional<bool> is_source = std::nullopt,
                          std::source_location where = std::source_location::current()) {
  return tree::map([&](const Array& x) { return broadcast_one_to_all(x, is_source, where); }, tree);
}

}  // namespace multihost
}  // namespace lockstep
