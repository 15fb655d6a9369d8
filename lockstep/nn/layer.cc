// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layer.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/creation.h"
#include "lockstep/random/random.h"

namespace lockstep::nn {
namespace {

std::uint32_t fnv1a(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

/// Calls `init` of each layer.
struct Initialization final : tree::Visitor {
  const random::Key& key;
  bool itself;
  tree::Path place;

  Initialization(const random::Key& key, bool itself) : Visitor(true), key(key), itself(itself) {
    path.kept = &place;
  }
  bool able(void* part, const tree::Abilities& abilities) override {
    if (abilities.init == nullptr || (place.text().empty() && !itself)) return false;
    abilities.init(part, key_at(key, place.text()).data());
    return true;
  }
  void leaf(Array& array) override {
    if (array.valid()) return;
    fail<TraceError>(
        "[nn::init] expected an array at {}, which is in no layer, got none{}; give it a value first, or "
        "give its class a member init(key)",
        place.text().empty() ? "the root" : place.text(), ops::at());
  }
};

/// Collects the logical axes of the layers' arrays.
struct AxesOfLayers final : tree::Visitor {
  std::vector<tree::NamedAxes> all;
  tree::Path place;

  AxesOfLayers() { path.kept = &place; }
  bool able(void* part, const tree::Abilities& abilities) override {
    if (abilities.logical_axes == nullptr) return false;
    for (const tree::NamedAxes& each : abilities.logical_axes(part)) {
      const std::size_t from = place.to_field(each.path);
      all.push_back({place.text(), each.axes});
      place.back(from);
    }
    return false;
  }
  void leaf(Array&) override {}
};

}  // namespace

std::int64_t Features::product() const {
  std::int64_t all = 1;
  for (std::int64_t size : sizes_) all *= size;
  return all;
}

void Features::tree_parts(Features& self, tree::Parts& part) { part("sizes", std::as_const(self.sizes_)); }

random::Key key_at(const random::Key& key, std::string_view path) {
  return path.empty() ? key : random::fold_in(key, full({}, std::int64_t{fnv1a(path)}, DType::kU32));
}

std::optional<random::Key> key_at(const std::optional<random::Key>& key, std::string_view path) {
  return key ? std::optional(key_at(*key, path)) : std::nullopt;
}

namespace internal {

void init(tree::TreeRef model, const random::Key& key, bool itself, const std::source_location& where) {
  CallSiteScope here(CallSite::from(where));
  Initialization visitor(key, itself);
  model.type->visit(model.tree, visitor);
}

tree::Rules<PartitionSpec> partition_rules(tree::TreeRef model, const LogicalRules& rules) {
  AxesOfLayers found;
  model.type->visit(model.tree, found);
  // One path may be the end of another one: the longer one comes first.
  std::ranges::stable_sort(found.all, std::greater(),
                           [](const tree::NamedAxes& each) { return each.path.size(); });
  std::vector<tree::Rules<PartitionSpec>::Rule> all;
  for (const tree::NamedAxes& each : found.all)
    all.push_back({"*" + each.path, logical_to_mesh_axes(each.axes, rules)});
  all.push_back({"*", PartitionSpec()});
  return tree::Rules<PartitionSpec>(std::move(all));
}

}  // namespace internal

tree::Rules<Sharding> named_shardings(const Mesh& mesh, const tree::Rules<PartitionSpec>& specs) {
  std::vector<tree::Rules<Sharding>::Rule> all;
  for (const auto& [glob, spec] : specs.rules()) all.push_back({glob, NamedSharding(mesh, spec)});
  return tree::Rules<Sharding>(std::move(all));
}

PartitionSpec logical_to_mesh_axes(const PartitionSpec& logical, const LogicalRules& rules) {
  std::vector<std::vector<std::string>> entries(logical.entries().size());
  std::vector<bool> decided(entries.size(), false);
  std::vector<std::string> taken;
  for (const auto& [name, entry] : rules) {
    for (std::size_t d = 0; d < entries.size(); ++d) {
      if (decided[d] || logical.axes(d) != std::vector<std::string>{name}) continue;
      const bool free = std::ranges::none_of(
          entry.axes, [&](const std::string& axis) { return std::ranges::count(taken, axis) > 0; });
      if (!free) continue;
      entries[d] = entry.axes;
      decided[d] = true;
      taken.insert(taken.end(), entry.axes.begin(), entry.axes.end());
      break;
    }
  }
  return PartitionSpec::from_entries(std::move(entries)).normalized();
}

}  // namespace lockstep::nn
