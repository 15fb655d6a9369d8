// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/random/key.h"
#include "lockstep/sharding/sharding.h"
#include "lockstep/tree/per_leaf.h"

/// Models are trees of layers. A layer is an aggregate (layers.h) of its configuration and its arrays.
///
///   struct Mlp {
///     nn::Linear in{.in_features = 64, .out_features = 128}, out{.in_features = 128, .out_features = 10};
///     Array operator()(const Array& x) const { return out(nn::relu(in(x))); }
///   };
///   Mlp mlp = nn::init(Mlp(), random::key(0));
///
/// A class of your own is a layer, too, if it has a member `T init(const random::Key& key) const`, which
/// returns the layer with its arrays. For shardings it also needs `std::vector<tree::NamedAxes>
/// logical_axes() const`.
namespace lockstep::nn {

/// Sizes of a layer's input or output dimensions: a number, or several in braces.
class Features {
 public:
  Features() = default;
  template <std::integral T>
  Features(T size) : sizes_{static_cast<std::int64_t>(size)} {}
  Features(std::initializer_list<std::int64_t> sizes) : sizes_(sizes) {}
  Features(std::vector<std::int64_t> sizes) : sizes_(std::move(sizes)) {}

  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  std::int64_t rank() const { return static_cast<std::int64_t>(sizes_.size()); }
  std::int64_t product() const;

  static void tree_parts(Features& self, tree::Parts& part);

 private:
  std::vector<std::int64_t> sizes_;
};

/// The key for a path in a tree: random::fold_in(key, h), where h is the 32-bit FNV-1a hash of the path; for
/// an empty path the key itself. So adding a layer to a model does not change the numbers of the other
/// layers.
random::Key key_at(const random::Key& key, std::string_view path);

/// The same of a key that may be missing: none of none. For layers that draw only in training, as Dropout.
std::optional<random::Key> key_at(const std::optional<random::Key>& key, std::string_view path);

namespace internal {
/// Initializes the layers below this tree; with `itself`, also the tree itself if it is a layer.
void init(tree::TreeRef model, const random::Key& key, bool itself, const std::source_location& where);
}  // namespace internal

/// The model with the arrays of all its layers. Each layer's `init` is called with key_at(key, its path),
/// wherever the layer is in the structs, vectors and other containers of the tree. Arrays outside of layers
/// are not changed; throws TraceError, with the path, if one of them has no value. Under jit this is one
/// program, and out_shardings determine where its results are placed:
///   Mlp mlp = jit([&] { return nn::init(Mlp(), random::key(0)); }, {.out_shardings = {replicated}})();
template <class Model>
Model init(Model model, const random::Key& key,
           std::source_location where = std::source_location::current()) {
  internal::init(tree::tree_ref(model), key, true, where);
  return model;
}

/// Initializes the layers inside this layer, for its own `init` to call.
template <class Layer>
Layer init_parts(Layer layer, const random::Key& key,
                 std::source_location where = std::source_location::current()) {
  internal::init(tree::tree_ref(layer), key, false, where);
  return layer;
}

/// The mesh axes over which each logical axis is split, as in flax. If a name has several rules, the first
/// one applies whose mesh axes no other dimension of the array uses. A name without a rule is not split.
///   LogicalRules{{"vocabulary", "tensor"}, {"heads", "tensor"}, {"embed", nullptr}}
using LogicalRules = std::vector<std::pair<std::string, PartitionEntry>>;

/// Converts a spec of logical axes to a spec of mesh axes (flax's logical_to_mesh_axes).
PartitionSpec logical_to_mesh_axes(const PartitionSpec& logical, const LogicalRules& rules);

namespace internal {
tree::Rules<PartitionSpec> partition_rules(tree::TreeRef model, const LogicalRules& rules);
}  // namespace internal

/// The specs as shardings over the mesh, for example for jit's out_shardings.
tree::Rules<Sharding> named_shardings(const Mesh& mesh, const tree::Rules<PartitionSpec>& specs);

/// The specs of the model's arrays by path; P() for arrays without logical axes. A path also matches at the
/// end of a longer path, so the same rules work for an optimizer's state, a checkpoint, or the pair of model
/// and state. The model need not be initialized.
template <class Model>
tree::Rules<PartitionSpec> partition_rules(const Model& model, const LogicalRules& rules) {
  return internal::partition_rules(tree::tree_ref(model), rules);
}

}  // namespace lockstep::nn
