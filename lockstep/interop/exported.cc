// SPDX-License-Identifier: Apache-2.0
#include "lockstep/interop/exported.h"

#include <exported_generated.h>

#include <algorithm>
#include <charconv>

#include "lockstep/base/fail.h"
#include "lockstep/interop/bytes.h"

namespace lockstep::interop {
namespace {

/// The calling conventions whose main functions take what ours gives them.
constexpr int kOldestConvention = 9, kNewestConvention = 10;

std::string text_of(const flatbuffers::String* text) { return text == nullptr ? "" : text->str(); }

/// The elements of a vector, which may be missing.
template <class T, class Use>
void each(const flatbuffers::Vector<T>* all, const Use& use) {
  if (all == nullptr) return;
  for (flatbuffers::uoffset_t i = 0; i < all->size(); ++i) use(all->Get(i));
}

/// The paths of a tree's leaves, in order.
void add_paths(const format::PyTreeDef* tree, const std::string& path, std::vector<std::string>& paths) {
  if (tree == nullptr || tree->kind() == format::PyTreeDefKind::none) return;
  if (tree->kind() == format::PyTreeDefKind::leaf) return paths.push_back(path);
  flatbuffers::uoffset_t i = 0;
  each(tree->children(), [&](const format::PyTreeDef* child) {
    const auto* names = tree->children_names();
    const std::string key = names != nullptr && i < names->size()
                                ? fmt::format("'{}'", text_of(names->Get(i)))
                                : std::to_string(i);
    add_paths(child, fmt::format("{}[{}]", path, key), paths);
    ++i;
  });
}

/// The paths of arguments: the tree is the pair of the positional ones and those by name.
std::vector<std::string> argument_paths(const format::PyTreeDef* tree) {
  std::vector<std::string> paths;
  if (tree == nullptr || tree->children() == nullptr || tree->children()->size() != 2) return paths;
  add_paths(tree->children()->Get(0), "", paths);
  add_paths(tree->children()->Get(1), "", paths);
  return paths;
}

std::vector<std::string> result_paths(const format::PyTreeDef* tree) {
  std::vector<std::string> paths;
  add_paths(tree, "", paths);
  return paths;
}

class Reading {
 public:
  explicit Reading(const format::Exported& exported)
      : from_(exported), name_(text_of(exported.function_name())) {}

  std::shared_ptr<const Exported> read() {
    check_versions();
    check_effects();
    auto made = std::make_shared<Exported>();
    made->name = name_;
    made->num_devices = from_.nr_devices() != 0 ? from_.nr_devices() : from_.nr_devices_short();
    if (made->num_devices < 1) fail_damaged("it is for no devices");
    each(from_.platforms(),
         [&](const flatbuffers::String* each) { made->platforms.push_back(text_of(each)); });
    each(from_.disabled_checks(), [&](const format::DisabledSafetyCheck* check) {
      made->any_platform = made->any_platform || check->kind() == format::DisabledSafetyCheckKind::platform;
    });
    made->inputs = values("argument", argument_paths(from_.in_tree()), from_.in_avals(),
                          from_.in_avals_idxs(), from_.in_shardings(), from_.in_shardings_idxs());
    made->outputs = values("result", result_paths(from_.out_tree()), from_.out_avals(),
                           from_.out_avals_idxs(), from_.out_shardings(), from_.out_shardings_idxs());
    each(from_.module_kept_var_idx(), [&](std::uint16_t index) {
      if (index >= made->inputs.size()) fail_damaged("it keeps an argument that is not there");
      made->kept.push_back(index);
    });
    if (from_.mlir_module_serialized() == nullptr) fail_damaged("it has no module");
    made->module.assign(reinterpret_cast<const char*>(from_.mlir_module_serialized()->data()),
                        from_.mlir_module_serialized()->size());
    if (from_.vjp() != nullptr) made->vjp = Reading(*from_.vjp()).read();
    return made;
  }

 private:
  /// JAX writes version 3 into every file since; what a file has says the rest.
  void check_versions() const {
    const int version = from_.serialization_version();
    if (version < 2 || version > 3) {
      fail<Error>(
          "[import_jax_export] '{}' is of version {} of the format; expected 2 or 3, as JAX 0.10.2 writes it",
          name_, version);
    }
    const int convention = from_.calling_convention_version();
    if (convention < kOldestConvention || convention > kNewestConvention) {
      fail<Error>(
          "[import_jax_export] '{}' has calling convention {}; expected {} to {}: export it with JAX 0.10.2, "
          "or set jax_export_calling_convention_version there",
          name_, convention, kOldestConvention, kNewestConvention);
    }
  }

  void check_effects() const {
    std::string effects;
    const auto add = [&](const format::Effect* effect) {
      effects += (effects.empty() ? "" : ", ") + text_of(effect->type_name());
    };
    each(from_.ordered_effects(), add);
    each(from_.unordered_effects(), add);
    if (effects.empty()) return;
    fail<Error>(
        "[import_jax_export] '{}' has effects ({}), such as callbacks and debug.print; expected none: export "
        "the function without them",
        name_, effects);
  }

  template <class Avals, class Indices, class Shardings>
  std::vector<ExportedValue> values(std::string_view what, const std::vector<std::string>& paths,
                                    const Avals* avals, const Indices* aval_indices,
                                    const Shardings* shardings, const Indices* sharding_indices) const {
    std::vector<ExportedValue> all;
    const auto path = [&](std::size_t i) { return i < paths.size() ? paths[i] : fmt::format("[{}]", i); };
    const auto add = [&](const format::AbstractValue* aval) {
      all.push_back(value(what, path(all.size()), aval));
    };
    if (aval_indices != nullptr) {
      each(aval_indices, [&](std::uint32_t index) {
        if (from_.unique_avals() == nullptr || index >= from_.unique_avals()->size())
          fail_damaged("a shape is not there");
        add(from_.unique_avals()->Get(index));
      });
    } else {
      each(avals, add);
    }
    std::size_t i = 0;
    const auto set = [&](const format::NamedSharding* sharding) {
      if (i < all.size() && sharding != nullptr) all[i].sharding = this->sharding(what, all[i], *sharding);
      ++i;
    };
    if (sharding_indices != nullptr) {
      each(sharding_indices, [&](std::uint32_t index) {
        if (index == 0) return set(nullptr);
        if (from_.unique_named_shardings() == nullptr || index > from_.unique_named_shardings()->size())
          fail_damaged("a sharding is not there");
        set(from_.unique_named_shardings()->Get(index - 1));
      });
    } else {
      each(shardings, [&](const format::Sharding* sharding) {
        if (sharding->named_sharding() == nullptr && sharding->hlo_sharding_proto() != nullptr) {
          fail<Error>(
              "[import_jax_export] '{}' has shardings without axes' names, of a JAX before 2026; export it "
              "with JAX 0.10.2",
              name_);
        }
        set(sharding->named_sharding());
      });
    }
    return all;
  }

  ExportedValue value(std::string_view what, const std::string& path,
                      const format::AbstractValue* from) const {
    ExportedValue made{.path = path};
    if (from == nullptr || from->kind() != format::AbstractValueKind::shapedArray)
      fail<Error>("[import_jax_export] {} {} of '{}' is not an array", what, path, name_);
    each(from->shape(), [&](const flatbuffers::String* size) {
      const std::string text = text_of(size);
      std::int64_t number = 0;
      const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
      if (read.ec != std::errc() || read.ptr != text.data() + text.size()) {
        fail<Error>(
            "[import_jax_export] {} {} of '{}' has the symbolic dimension '{}'; expected numbers: export the "
            "function for the sizes that it is called with",
            what, path, name_, text);
      }
      made.aval.shape.push_back(number);
    });
    constexpr std::int8_t kHost = 2;
    if (from->memory_space() == kHost) {
      fail<Error>("[import_jax_export] {} {} of '{}' is in the host's memory; expected the device's", what,
                  path, name_);
    }
    made.aval.dtype = dtype(what, path, from->dtype(), made.is_float0);
    return made;
  }

  DType dtype(std::string_view what, const std::string& path, format::DType from, bool& is_float0) const {
    using From = format::DType;
    switch (from) {
      case From::f0:
        is_float0 = true;
        return DType::kBool;
      case From::bool_:
        return DType::kBool;
      case From::i8:
        return DType::kI8;
      case From::i16:
        return DType::kI16;
      case From::i32:
        return DType::kI32;
      case From::i64:
        return DType::kI64;
      case From::ui8:
        return DType::kU8;
      case From::ui16:
        return DType::kU16;
      case From::ui32:
        return DType::kU32;
      case From::ui64:
        return DType::kU64;
      case From::f16:
        return DType::kF16;
      case From::bf16:
        return DType::kBF16;
      case From::f32:
        return DType::kF32;
      case From::f64:
        return DType::kF64;
      case From::c64:
        return DType::kC64;
      case From::c128:
        return DType::kC128;
      case From::f8_e4m3fn:
        return DType::kF8E4M3FN;
      case From::f8_e5m2:
        return DType::kF8E5M2;
      default:
        break;
    }
    fail<Error>("[import_jax_export] {} {} of '{}' has the dtype {}, which Lockstep does not have", what,
                path, name_, format::EnumNameDType(from));
  }

  ExportedSharding sharding(std::string_view what, const ExportedValue& value,
                            const format::NamedSharding& from) const {
    ExportedSharding made;
    const format::AbstractMesh* mesh = from.mesh();
    if (const auto* all = from_.unique_abstract_meshes(); all != nullptr && all->size() > 0) {
      if (from.abstract_mesh_idx() >= all->size()) fail_damaged("a mesh is not there");
      mesh = all->Get(from.abstract_mesh_idx());
    }
    if (mesh == nullptr) fail_damaged("a sharding has no mesh");
    each(mesh->axis_names(),
         [&](const flatbuffers::String* name) { made.mesh.emplace_back(text_of(name), 0); });
    std::size_t i = 0;
    each(mesh->axis_sizes(), [&](std::uint32_t size) {
      if (i < made.mesh.size()) made.mesh[i++].second = size;
    });
    if (i != made.mesh.size()) fail_damaged("a mesh has axes without a size");
    if (from.spec() == nullptr) return made;
    if (from.spec()->unreduced() != nullptr && from.spec()->unreduced()->size() > 0) {
      fail<Error>("[import_jax_export] {} {} of '{}' is unreduced over '{}'; expected whole values", what,
                  value.path, name_, text_of(from.spec()->unreduced()->Get(0)));
    }
    each(from.spec()->partitions(), [&](const format::PartitionSpecOneAxis* entry) {
      std::vector<std::string>& axes = made.splits.emplace_back();
      each(entry->axes(), [&](const flatbuffers::String* axis) { axes.push_back(text_of(axis)); });
    });
    return made;
  }

  const format::Exported& from_;
  const std::string name_;
};

}  // namespace

std::shared_ptr<const Exported> read_exported(std::string_view bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (bytes.size() < 8 || !format::VerifyExportedBuffer(verifier))
    fail_damaged("they are not what jax.export's serialize() writes");
  return Reading(*format::GetExported(bytes.data())).read();
}

}  // namespace lockstep::interop
