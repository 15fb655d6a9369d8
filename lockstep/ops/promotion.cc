// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/promotion.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "lockstep/base/call_site.h"
#include "lockstep/base/fail.h"

namespace lockstep {
namespace {

/// The lattice's nodes, each before all nodes above it.
enum Node {
  kBool,
  kInt,
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kU64,
  kI64,
  kFloat,
  kBF16,
  kF16,
  kF32,
  kF64,
  kC64,
  kC128,
  kF8E4M3FN,
  kF8E5M2,
  kNodes
};

struct NodeInfo {
  ElementType type;
  std::uint32_t up;  ///< the nodes next above it, as bits
};

constexpr std::uint32_t bit(Node node) { return 1u << node; }

constexpr std::array<NodeInfo, kNodes> kLattice = {{
    {{DType::kBool, false}, bit(kInt)},
    {{DType::kI32, true}, bit(kU8) | bit(kI8)},
    {{DType::kU8, false}, bit(kU16) | bit(kI16)},
    {{DType::kI8, false}, bit(kI16)},
    {{DType::kU16, false}, bit(kU32) | bit(kI32)},
    {{DType::kI16, false}, bit(kI32)},
    {{DType::kU32, false}, bit(kU64) | bit(kI64)},
    {{DType::kI32, false}, bit(kI64)},
    {{DType::kU64, false}, bit(kFloat)},
    {{DType::kI64, false}, bit(kFloat)},
    {{DType::kF32, true}, bit(kBF16) | bit(kF16) | bit(kF8E4M3FN) | bit(kF8E5M2)},
    {{DType::kBF16, false}, bit(kF32)},
    {{DType::kF16, false}, bit(kF32)},
    {{DType::kF32, false}, bit(kF64) | bit(kC64)},
    {{DType::kF64, false}, bit(kC128)},
    {{DType::kC64, false}, bit(kC128)},
    {{DType::kC128, false}, 0},
    {{DType::kF8E4M3FN, false}, 0},
    {{DType::kF8E5M2, false}, 0},
}};

/// A node and all above it, as bits.
constexpr std::array<std::uint32_t, kNodes> kAbove = [] {
  std::array<std::uint32_t, kNodes> above{};
  for (int node = kNodes - 1; node >= 0; --node) {
    above[node] = 1u << node;
    for (int up = node + 1; up < kNodes; ++up) {
      if (kLattice[node].up >> up & 1) above[node] |= above[up];
    }
  }
  return above;
}();

Node node_of(ElementType type) {
  // A weak type without a node of its own counts as its kind: an f64 that was a number is float*.
  if (type.weak && is_integer(type.dtype)) return kInt;
  if (type.weak && is_floating(type.dtype)) return kFloat;
  for (int node = 0; node < kNodes; ++node) {
    if (kLattice[node].type == ElementType{type.dtype, false}) return static_cast<Node>(node);
  }
  return type.dtype == DType::kC128 ? kC128 : kC64;
}

}  // namespace

ElementType promote(std::string_view operation, std::span<const ElementType> types) {
  // Weak types of one dtype keep it.
  if (std::ranges::all_of(types, [&](ElementType type) { return type == types[0]; })) return types[0];
  std::uint32_t above_all = ~0u;
  for (ElementType type : types) above_all &= kAbove[node_of(type)];
  above_all &= (1u << kNodes) - 1;
  for (int node = 0; node < kNodes; ++node) {
    if (above_all == kAbove[node]) return kLattice[node].type;
  }
  std::string names;
  for (ElementType type : types) names += fmt::format("{}{}", names.empty() ? "" : ", ", name(type.dtype));
  fail<DTypeError>("[{}] no dtype holds all of the operands' dtypes ({}) (at {}); convert them with astype",
                   operation, names, CallSiteScope::current().to_string());
}

ElementType to_inexact(ElementType type) {
  if (is_inexact(type.dtype)) return type;
  return {size_of(type.dtype) == 8 ? DType::kF64 : DType::kF32, type.weak};
}

DType at_least_f32(DType dtype) { return size_of(dtype) < 4 ? DType::kF32 : dtype; }

}  // namespace lockstep
