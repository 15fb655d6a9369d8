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

#include "lockstep/sharding/sharding.h"
#include "lockstep/tree/per_leaf.h"

/// Models are trees of layers: aggregates (layers.h) that say what they shall be and hold their arrays.
///
///   struct Mlp {
///     nn::Linear in{.in_features = 64, .out_features = 128}, out{.in_features = 128, .out_features = 10};
///     Array operator()(const Array& x) const { return out(nn::relu(in(x))); }
///   };
///   Mlp mlp = nn::init(Mlp(), random::key(0));
///
/// A class of one's own is a layer too if it has a member `T init(const Array& key) const`, which gives the
/// layer with its arrays; and, for shardings, `std::vector<tree::NamedAxes> logical_axes() const`.
namespace lockstep::nn {

/// Sizes of the dimensions that a layer takes or gives: a number, or several in braces.
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

/// The key of a place in a tree: random::fold_in(key, h), where h is the 32-bit FNV-1a hash of the path. Of
/// an empty path the key itself. A model that gets a further layer keeps the numbers of the others.
Array key_at(const Array& key, std::string_view path);

/// The same of a key that may be missing: none of none. For layers that draw only in training, as Dropout.
std::optional<Array> key_at(const std::optional<Array>& key, std::string_view path);

namespace internal {
/// Of the arrays below this tree; `itself`: also where the tree is a layer.
void init(tree::TreeRef model, const Array& key, bool itself, const std::source_location& where);
}  // namespace internal

/// The model with the arrays of all its layers made: each layer's init with key_at(key, its path), wherever
/// it stands in structs, vectors and whatever else a tree is of. Arrays outside of layers stay as they are.
/// Throws TraceError where one of those has no value, with its path. In jit all is one program, and
/// out_shardings place what it makes:
///   Mlp mlp = jit([&] { return nn::init(Mlp(), random::key(0)); }, {.out_shardings = {replicated}})();
template <class Model>
Model init(Model model, const Array& key, std::source_location where = std::source_location::current()) {
  internal::init(tree::tree_ref(model), key, true, where);
  return model;
}

/// The same of the layers below this one, for its own `init` to call.
template <class Layer>
Layer init_parts(Layer layer, const Array& key,
                 std::source_location where = std::source_location::current()) {
  internal::init(tree::tree_ref(layer), key, false, where);
  return layer;
}

/// Which axes of a mesh each logical axis is split over, as in flax: of several rules for one name the first
/// whose mesh axes no other dimension of the array has. A name without a rule is not split.
///   LogicalRules{{"vocabulary", "tensor"}, {"heads", "tensor"}, {"embed", nullptr}}
using LogicalRules = std::vector<std::pair<std::string, PartitionEntry>>;

/// The spec over mesh axes of one over logical axes (flax's logical_to_mesh_axes).
PartitionSpec logical_to_mesh_axes(const PartitionSpec& logical, const LogicalRules& rules);

namespace internal {
tree::Rules<PartitionSpec> partition_rules(tree::TreeRef model, const LogicalRules& rules);
}  // namespace internal

/// The specs as shardings over the mesh, for jit's out_shardings and the like.
tree::Rules<Sharding> named_shardings(const Mesh& mesh, const tree::Rules<PartitionSpec>& specs);

/// The specs of the model's arrays by their paths; P() for those of which no layer says anything. The paths
/// may stand below others, so that the rules are also those of an optimizer's state, of a checkpoint and of
/// the pair of model and state. The model need not be initialized.
template <class Model>
tree::Rules<PartitionSpec> partition_rules(const Model& model, const LogicalRules& rules) {
  return internal::partition_rules(tree::tree_ref(model), rules);
}

}  // namespace lockstep::nn
