// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <source_location>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/jit/callback.h"
#include "lockstep/runtime/ffi_targets.h"

/// User kernels in compiled programs, by XLA's foreign function interface: functions that read and write the
/// program's memory. They are written with XLA's header xla/ffi/api/ffi.h, which is installed beside
/// Lockstep's headers:
///
///   ffi::Error scaled(float by, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) { ... }
///   XLA_FFI_DEFINE_HANDLER(kScaled, scaled, ffi::Ffi::Bind().Attr<float>("by").Arg<ffi::Buffer<ffi::F32>>()
///                                               .Ret<ffi::Buffer<ffi::F32>>());
///   lockstep::ffi::register_ffi_target<kScaled>("scaled");
///   Array y = lockstep::ffi::ffi_call("scaled", ResultType({8}), {x}, {.attributes = {{"by", 0.5f}}});
namespace lockstep::ffi {

/// Registers a handler for a platform, "cpu" or "cuda". For "cuda" its arrays are in the GPU's memory; it
/// begins its work on the program's stream, `.Ctx<ffi::PlatformStream<cudaStream_t>>()`, and does not wait
/// for it. If the handler returns an error or throws, the call that runs the program throws an Error with
/// that text. Throws Error for another platform, and if another handler has the name; the same handler may be
/// registered again.
template <XLA_FFI_Error* (*kHandler)(XLA_FFI_CallFrame*)>
void register_ffi_target(const std::string& name, const std::string& platform = "cpu",
                         std::source_location where = std::source_location::current()) {
  CallSiteScope site(CallSite::from(where));
  runtime::register_ffi_target(name, platform, [](XLA_FFI_CallFrame* frame) -> XLA_FFI_Error* {
    try {
      return kHandler(frame);
    } catch (const std::exception& error) {
      return runtime::ffi_error(frame, error.what());
    } catch (...) {
      return runtime::ffi_error(frame, "a kernel failed with an exception that is not a std::exception");
    }
  });
}

/// The types of attributes, which a handler reads with Attr<T>.
using Attribute =
    std::variant<bool, std::int32_t, std::int64_t, float, double, std::string, std::vector<std::int64_t>>;

struct FfiCallOptions {
  std::map<std::string, Attribute> attributes = {};

  /// How the call is mapped by vmap. nullopt: vmap throws TraceError. kSequential: the program calls the
  /// kernel for each example.
  std::optional<VmapMethod> vmap_method = std::nullopt;

  /// How operands may be split: names for the dimensions of each operand and result, as in JAX's
  /// custom_partitioning, "b i k, k j -> b i j". Dimensions with one name have one size. The kernel is called
  /// on each device's parts, and its results are the parts of the results. "*" is a dimension that each
  /// device needs as a whole; so is one whose name only operands or only results have. With vmap the
  /// dimension of the examples may be split, too. Empty: each device needs whole operands.
  std::string sharding_rule = "";

  /// Names of the rule that only operands have, and may be split: the results are then the sums of the
  /// devices' results. Not for a kernel that adds something that does not depend on them.
  std::vector<std::string> reduction_factors = {};
};

/// The kernel's results for these operands. Each device calls it on whole operands, or as sharding_rule says;
/// it must have no side effects. There is no derivative (TraceError) unless custom_jvp or custom_vjp defines
/// it. Throws Error if no kernel has this name, and ShapeError if the sharding rule does not fit.
std::vector<Array> ffi_call(const std::string& target, const std::vector<ResultType>& results,
                            const std::vector<Array>& operands, const FfiCallOptions& options = {});
Array ffi_call(const std::string& target, const ResultType& result, const std::vector<Array>& operands,
               const FfiCallOptions& options = {});

}  // namespace lockstep::ffi
