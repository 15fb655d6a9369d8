// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/call_site.h"
#include "lockstep/base/function.h"
#include "lockstep/jit/make_program.h"
#include "lockstep/sharding/sharding.h"

/// Functions that were exported from Python by jax.export.
namespace lockstep {

namespace interop {
struct Exported;
}

/// An exported function over a mesh: a jitted function of Lockstep's own operations, which may be called in
/// other traced functions, mapped and differentiated. Cheap to copy.
class ExportedFunction {
 public:
  using Function = std::function<std::vector<Array>(const std::vector<Array>&)>;
  ExportedFunction(std::shared_ptr<const interop::Exported> exported, Function function)
      : exported_(std::move(exported)), function_(std::move(function)) {}

  /// The results for these arguments, both in the order of the leaves of the Python function's trees: dicts
  /// by their sorted keys. Arguments are brought to the shardings that the function was exported for, and may
  /// lie otherwise on the same mesh. As a jitted function it is compiled once for each kind of arguments; the
  /// processes whose devices take part must all call it. Throws Error for another number of arguments,
  /// ShapeError and DTypeError for an argument of another shape or dtype, naming it by its path; and
  /// TraceError where it is differentiated and no derivative was exported with it (`serialize(vjp_order=1)`),
  /// or one of a higher order than was. Another dtype is never converted.
  std::vector<Array> operator()(const std::vector<Array>& arguments,
                                std::source_location where = std::source_location::current()) const;

 private:
  std::shared_ptr<const interop::Exported> exported_;
  Function function_;
};

/// A function read from the bytes of jax.export's `serialize()`. Cheap to copy.
class JaxExport {
 public:
  explicit JaxExport(std::shared_ptr<const interop::Exported> exported) : exported_(std::move(exported)) {}

  /// The Python function's name.
  const std::string& function_name() const;

  /// How many devices it was exported for, and the axes of their mesh where it has one.
  std::int64_t nr_devices() const;
  std::vector<std::pair<std::string, std::int64_t>> mesh_axes() const;

  /// The platforms that it was exported for: "cpu", "cuda", "tpu".
  const std::vector<std::string>& platforms() const;

  /// Whether a derivative was exported with it.
  bool has_vjp() const;

  /// Arguments and results in order, with their paths in the Python function's trees: "[0]['w']".
  std::vector<ShapeDtype> in_avals() const;
  std::vector<ShapeDtype> out_avals() const;

  /// How the arguments (results) are to lie over this mesh; none of an array of which it was not said. Throws
  /// ShardingError as on().
  std::vector<std::optional<Sharding>> in_shardings(const Mesh& mesh) const;
  std::vector<std::optional<Sharding>> out_shardings(const Mesh& mesh) const;

  /// The function over a mesh, of nr_devices() devices. The axes of the mesh stand for those of the exported
  /// one, one for one: the sizes must be the same, the names need not. Throws ShardingError otherwise, and
  /// Error where the running platform is none of platforms(), or the module has what there is none of here:
  /// the message names it.
  ExportedFunction on(const Mesh& mesh, std::source_location where = std::source_location::current()) const;

  /// The function that was exported for one device: on any number of devices, wherever its arguments lie,
  /// with the partitioner's choice of how. Throws ShardingError where it was exported for several devices,
  /// and as on(mesh).
  ExportedFunction on(std::source_location where = std::source_location::current()) const;

 private:
  std::shared_ptr<const interop::Exported> exported_;
};

/// Reads what `jax.export.export(jax.jit(f))(…).serialize()` of JAX 0.10.2 wrote. With
/// `serialize(vjp_order=1)` the function can be differentiated, backwards, by the derivative that JAX
/// exported with it. The module in it becomes Lockstep's own operations, which are partitioned, lowered and
/// compiled as every traced function is, in any number of processes.
///
/// Throws Error, which says what and why, where the bytes are damaged, cut short or something else, of
/// another version, or the function has effects, symbolic dimensions, or dtypes that there are none of here.
/// The bytes decide what is computed, and nothing else: no code is in them.
///   JaxExport exported = import_jax_export(bytes);
///   auto step = exported.on(make_mesh({{"data", 4}}));
///   std::vector<Array> results = step({params, x});
JaxExport import_jax_export(std::string_view bytes);

}  // namespace lockstep
