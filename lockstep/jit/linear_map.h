// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/call_site.h"
#include "lockstep/jit/tree_function.h"
#include "lockstep/tree/leaves.h"

/// The implementation of derivatives.h: a function's value at some arguments, and its derivative there as a
/// linear map.
namespace lockstep::internal {

class JitCache;
struct LinearProgram;

/// The call of a LinearMap: from the arrays of tangents (cotangents) to those of the derivatives.
class LinearCall {
 public:
  /// `operation` and `what` are for messages.
  LinearCall(std::shared_ptr<const LinearProgram> linear, std::vector<Array> needed,
             std::string_view operation, std::string_view what, const CallSite& site);

  /// Throws ShapeError or DTypeError, at `where`, if an array's shape or dtype differs from that of the
  /// corresponding value.
  std::vector<Array> operator()(const std::vector<Array>& given, const CallSite& where) const;

 private:
  std::string_view operation_, what_;
  std::shared_ptr<const LinearProgram> linear_;
  std::vector<Array> needed_;
  std::shared_ptr<JitCache> jitted_;
};

/// A function's result and its derivative.
struct Linearized {
  tree::AnyTree result;
  LinearCall derivative;
};

/// function(arguments...) and its derivative with respect to the arguments, forward or reverse; with respect
/// to argument `argnum` only, if it is given. Within the current trace, or as a program of its own.
Linearized linearized(const TreeFunction& function, bool forwards, std::string_view operation,
                      const CallSite& site, std::span<const tree::TreeRef> arguments,
                      std::optional<std::size_t> argnum = std::nullopt);

/// A linear map between trees: from From's leaves to To's.
template <class From, class To>
class LinearMap {
 public:
  LinearMap(LinearCall call, To exemplar) : call_(std::move(call)), exemplar_(std::move(exemplar)) {}

  /// Throws ShapeError or DTypeError if an array's shape or dtype differs from that of the corresponding
  /// value.
  To operator()(const From& given, std::source_location where = std::source_location::current()) const {
    To out = exemplar_;
    tree::tree_ref(out).replace_leaves(call_(tree::leaves(given), CallSite::from(where)));
    return out;
  }

 private:
  LinearCall call_;
  To exemplar_;
};

}  // namespace lockstep::internal
