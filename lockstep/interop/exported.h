// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/program/aval.h"

namespace lockstep::interop {

/// How an array lies, in the names of the mesh that the function was exported for.
struct ExportedSharding {
  std::vector<std::pair<std::string, std::int64_t>> mesh;
  std::vector<std::vector<std::string>> splits;  ///< of each dimension, the axes
};

/// An array that an exported function takes or gives.
struct ExportedValue {
  std::string path;  ///< its place in the arguments' (result's) tree: "[0]['w']"
  Aval aval;

  /// The derivative of an integer: of dtype bool here, and without meaning.
  bool is_float0 = false;

  std::optional<ExportedSharding> sharding;  ///< none: it was not said
};

/// The contents of the bytes of jax.export.
struct Exported {
  std::string name;
  std::int64_t num_devices = 1;
  std::vector<std::string> platforms;
  bool any_platform = false;  ///< the check of the platform was switched off where it was exported
  std::vector<ExportedValue> inputs, outputs;
  std::vector<std::size_t> kept;  ///< which of the inputs the module's main function takes
  std::string module;             ///< a portable artifact of StableHLO
  std::shared_ptr<const Exported> vjp;
};

/// Reads what `jax.export.export(f)(…).serialize()` of JAX 0.10.2 writes. Throws Error, which says what and
/// why, for bytes that are damaged, cut short or something else, other versions of the format or of its
/// calling convention, effects, symbolic dimensions, and dtypes and memories that there are none of here.
std::shared_ptr<const Exported> read_exported(std::string_view bytes);

}  // namespace lockstep::interop
