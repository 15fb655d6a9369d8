// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>

#include "lockstep/ops/operand.h"
#include "lockstep/tree/visit.h"

namespace lockstep::nn {

struct KvCacheOptions {
  DType dtype = DType::kF32;

  /// A query sees only this many keys, the last of which is its own (Mistral's sliding_window); 0: all. No
  /// more are kept: a new row replaces the one that nobody sees any more.
  std::int64_t window = 0;
};

/// The keys and values of the rows so far of each example, for one layer of a decoder that gets its rows one
/// after the other. It is a tree: donate it to the jitted step, or carry it through a loop. On a mesh `key`
/// and `value` may be split by batch, as `length` then is, or by key heads; neither needs collectives.
struct KvCache {
  Array key, value;         ///< [batch, key heads, capacity, features of a head]
  Array length;             ///< i32[batch]: the number of rows so far
  std::int64_t window = 0;  ///< as in KvCacheOptions

  /// An empty cache for up to `capacity` rows of each example, or for any number of them if there is a window
  /// of no more than that: then its capacity is the window. Throws ShapeError unless all sizes are positive,
  /// and for a negative window.
  static KvCache make(std::int64_t batch, std::int64_t capacity, std::int64_t key_heads,
                      std::int64_t features, const KvCacheOptions& options = {},
                      std::source_location where = std::source_location::current());

  /// What dot_product_attention gets for the queries of new rows.
  struct Seen {
    Array key, value;  ///< [batch, keys, key heads, features], in the cache's dtype
    Array mask;        ///< bools [batch, 1, rows, keys]: the rows up to the query's own, within the window
    Array queries;     ///< i32[batch, rows]: the positions of the queries and
    Array keys;        ///< i32[1 or batch, keys]: of the keys, for other masks
  };

  /// Adds the next rows, key and value of [batch, rows, key heads, features], in the cache's dtype. Of
  /// example i only the first lengths[i] rows (integers [batch]) are added; the others are padding, and what
  /// their queries see is undefined. Rows beyond the capacity are lost (has_lost). Throws ShapeError for rows
  /// or lengths that do not fit, DTypeError for lengths that are not integers.
  Seen update(const Operand& key, const Operand& value, const std::optional<Array>& lengths = {});

  /// The positions of the next rows, for rotary_tables: i32[batch, rows].
  Array next_positions(std::int64_t rows, std::source_location where = std::source_location::current()) const;

  /// For each example, whether it got more rows than the capacity and has lost some: bools [batch].
  Array has_lost(std::source_location where = std::source_location::current()) const;

  static void tree_parts(KvCache& self, tree::Parts& part);
};

}  // namespace lockstep::nn
