// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/kv_cache.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/nn/layer_arrays.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape.h"
#include "lockstep/program/primitives/gather.h"

namespace lockstep::nn {
namespace {

/// Whether new rows replace old ones.
bool rolls(const KvCache& cache) { return cache.window > 0 && cache.key.shape()[2] == cache.window; }

void check_rows(const KvCache& cache, const Operand& key, const Operand& value,
                const std::optional<Array>& lengths) {
  internal::check_made("KvCache", cache.key);
  const Shape &rows = key.shape(), &all = cache.key.shape();
  const bool fits = all.size() == 4 && cache.value.shape() == all && cache.length.shape() == Shape{all[0]} &&
                    rows.size() == 4 && value.shape() == rows && rows[0] == all[0] && rows[2] == all[1] &&
                    rows[3] == all[3] && (rolls(cache) || rows[1] <= all[2]);
  if (!fits) {
    fail<ShapeError>(
        "[nn::KvCache] expected rows [batch, rows, key heads, features] that fit into a cache [batch, key "
        "heads, capacity, features] of {}, got {} and {}{}",
        to_string(cache.key.aval()), to_string(key.aval()), to_string(value.aval()), ops::at());
  }
  if (!lengths) return;
  if (lengths->shape() != Shape{all[0]}) {
    fail<ShapeError>("[nn::KvCache] expected lengths of {} examples, got {}{}", all[0],
                     to_string(lengths->aval()), ops::at());
  }
  if (!is_integer(lengths->dtype())) {
    fail<DTypeError>("[nn::KvCache] expected integers as lengths, got {}{}", to_string(lengths->aval()),
                     ops::at());
  }
}

/// The cache with row [i, r] of `rows`, [batch, rows, heads, features], at slots[i, r], i32[batch, rows];
/// without those whose slot does not exist.
Array written(const Array& cache, const Array& rows, const Array& slots) {
  return ops::run("KvCache.update", "", {cache, rows, slots}, [](ops::Tracers t) {
    const Shape& shape = t[2].shape();
    return ir::lax::scatter(t[0], ir::lax::reshape(t[2], {shape[0], shape[1], 1}),
                            ops::convert(t[1], {t[0].dtype(), false}),
                            {.update_window_dims = {2, 3},
                             .inserted_window_dims = {2},
                             .scatter_dims_to_operand_dims = {2},
                             .operand_batching_dims = {0},
                             .scatter_indices_batching_dims = {0}},
                            GatherScatterMode::kFillOrDrop, /*unique_indices=*/true);
  });
}

/// [batch, key heads, keys, features] as dot_product_attention takes it, and the inverse.
Array turned(const Array& x) { return transpose(x, {0, 2, 1, 3}); }

}  // namespace

KvCache KvCache::make(std::int64_t batch, std::int64_t capacity, std::int64_t key_heads,
                      std::int64_t features, const KvCacheOptions& options, std::source_location where) {
  CallSiteScope here(CallSite::from(where));
  internal::check_sizes("KvCache", "a batch, capacity, key heads and features",
                        {batch, capacity, key_heads, features});
  if (options.window < 0)
    fail<ShapeError>("[nn::KvCache] expected a window of at least 0, got {}{}", options.window, ops::at());
  const std::int64_t slots = options.window == 0 ? capacity : std::min(capacity, options.window);
  const Shape shape = {batch, key_heads, slots, features};
  return {zeros(shape, options.dtype), zeros(shape, options.dtype), zeros({batch}, DType::kI32),
          options.window};
}

KvCache::Seen KvCache::update(const Operand& new_key, const Operand& new_value,
                              const std::optional<Array>& lengths) {
  CallSiteScope here(new_key.site());
  check_rows(*this, new_key, new_value, lengths);
  const std::int64_t batch = key.shape()[0], slots = key.shape()[2], rows = new_key.shape()[1];
  const Array before = reshape(length, {batch, 1});
  const Array count = lengths ? reshape(astype(*lengths, DType::kI32), {batch, 1})
                              : full({batch, 1}, static_cast<double>(rows), DType::kI32);
  const Array after = before + count;
  const Array queries = next_positions(rows);
  const bool rolling = rolls(*this);

  /// The position of the newest row in each slot, if `end` rows have been added; -1: there is none.
  auto held = [&](const Array& end) {
    const Array last = end - 1;
    const Array at = last - remainder(last - arange(slots, DType::kI32), static_cast<int>(slots));
    return where(at >= 0, at, -1);
  };
  Seen seen;
  seen.queries = queries;
  const bool joined = rolling && rows > 1;  // some of the new rows may see what others of them replace
  if (joined) {
    seen.key = concatenate({turned(key), astype(new_key, key.dtype())}, 1);
    seen.value = concatenate({turned(value), astype(new_value, value.dtype())}, 1);
    seen.keys = concatenate({held(before), queries}, 1);
  }
  Array place = queries;
  if (rolling) {
    const Array kept = logical_and(queries < after, queries >= after - static_cast<int>(slots));
    place = where(kept, remainder(queries, static_cast<int>(slots)), static_cast<int>(slots));
  }
  key = written(key, new_key.as_array(), place);
  value = written(value, new_value.as_array(), place);
  length = reshape(after, {batch});
  if (!joined) {
    seen.key = turned(key);
    seen.value = turned(value);
    seen.keys = rolling ? held(after) : reshape(arange(slots, DType::kI32), {1, slots});
  }
  const Array of_query = expand_dims(queries, 2), of_key = expand_dims(seen.keys, 1);
  Array mask = of_key <= of_query;
  if (rolling) {
    mask = logical_and(mask, logical_and(of_key >= 0, of_key > of_query - static_cast<int>(window)));
  }
  seen.mask = expand_dims(mask, 1);
  return seen;
}

Array KvCache::next_positions(std::int64_t rows, std::source_location where) const {
  CallSiteScope here(CallSite::from(where));
  internal::check_made("KvCache", length);
  return expand_dims(length, 1) + arange(rows, DType::kI32);
}

Array KvCache::has_lost(std::source_location where) const {
  CallSiteScope here(CallSite::from(where));
  internal::check_made("KvCache", length);
  if (rolls(*this)) return zeros(length.shape(), DType::kBool);
  return length > static_cast<int>(key.shape()[2]);
}

void KvCache::tree_parts(KvCache& self, tree::Parts& part) {
  part("key", self.key)("value", self.value)("length", self.length)("window", std::as_const(self.window));
}

}  // namespace lockstep::nn
