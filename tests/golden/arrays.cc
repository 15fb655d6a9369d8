// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/ops.h"
#include "tests/golden/functions.h"

namespace lockstep::golden {
namespace {

void add_creation(Functions& all) {
  all["zeros"] = [](const Arrays&) { return Arrays{zeros({2, 3})}; };
  all["ones(i32)"] = [](const Arrays&) { return Arrays{ones({2, 3}, int32)}; };
  all["full"] = [](const Arrays&) { return Arrays{full({2, 3}, 1.5)}; };
  all["zeros_like"] = [](const Arrays& a) { return Arrays{zeros_like(a[0])}; };
  all["ones_like"] = [](const Arrays& a) { return Arrays{ones_like(a[0])}; };
  all["full_like"] = [](const Arrays& a) { return Arrays{full_like(a[0], 2)}; };
  all["arange(7)"] = [](const Arrays&) { return Arrays{arange(7)}; };
  all["arange(0.5, 3, 0.25)"] = [](const Arrays&) { return Arrays{arange(0.5, 3, 0.25)}; };
  all["arange(9, -3, -2)"] = [](const Arrays&) { return Arrays{arange(9, -3, -2)}; };
  all["linspace"] = [](const Arrays&) { return Arrays{linspace(-1, 2, 7)}; };
  all["eye"] = [](const Arrays&) { return Arrays{eye(3, 4)}; };
  all["tri"] = [](const Arrays&) { return Arrays{tri(3, 4, 1)}; };
  all["one_hot"] = [](const Arrays& a) { return Arrays{one_hot(a[0], 4)}; };
  all["meshgrid"] = [](const Arrays& a) { return meshgrid(a); };
  all["meshgrid(ij, sparse)"] = [](const Arrays& a) {
    return meshgrid(a, {.indexing = "ij", .sparse = true});
  };
}

void add_moving(Functions& all) {
  all["reshape"] = [](const Arrays& a) { return Arrays{reshape(a[0], {3, -1})}; };
  all["ravel"] = [](const Arrays& a) { return Arrays{ravel(a[0])}; };
  all["transpose"] = [](const Arrays& a) { return Arrays{transpose(a[0])}; };
  all["transpose(axes)"] = [](const Arrays& a) { return Arrays{transpose(a[0], {1, 2, 0})}; };
  all["swapaxes"] = [](const Arrays& a) { return Arrays{swapaxes(a[0], 0, -1)}; };
  all["moveaxis"] = [](const Arrays& a) { return Arrays{moveaxis(a[0], 0, 2)}; };
  all["expand_dims"] = [](const Arrays& a) { return Arrays{expand_dims(a[0], 1)}; };
  all["squeeze"] = [](const Arrays& a) { return Arrays{squeeze(a[0])}; };
  all["broadcast_to"] = [](const Arrays& a) { return Arrays{broadcast_to(a[0], {2, 4, 6})}; };
  all["concatenate"] = [](const Arrays& a) { return Arrays{concatenate(a, 1)}; };
  all["stack"] = [](const Arrays& a) { return Arrays{stack(a, 1)}; };
  all["split"] = [](const Arrays& a) { return split(a[0], 3, 1); };
  all["split_at"] = [](const Arrays& a) { return split_at(a[0], {1, 4}, 1); };
  all["array_split"] = [](const Arrays& a) { return array_split(a[0], 4, 1); };
  all["hstack"] = [](const Arrays& a) { return Arrays{hstack(a)}; };
  all["vstack"] = [](const Arrays& a) { return Arrays{vstack(a)}; };
  all["dstack"] = [](const Arrays& a) { return Arrays{dstack(a)}; };
  all["column_stack"] = [](const Arrays& a) { return Arrays{column_stack(a)}; };
  all["append"] = [](const Arrays& a) { return Arrays{append(a[0], a[1])}; };
  all["tile"] = [](const Arrays& a) { return Arrays{tile(a[0], {2, 1, 3})}; };
  all["repeat"] = [](const Arrays& a) { return Arrays{repeat(a[0], 2, 1)}; };
  all["repeat(counts)"] = [](const Arrays& a) {
    return Arrays{repeat(a[0], a[1], {.total_repeat_length = 6, .axis = 0})};
  };
  all["repeat(counts, longer)"] = [](const Arrays& a) {
    return Arrays{repeat(a[0], a[1], {.total_repeat_length = 8, .axis = 0})};
  };
  all["pad"] = [](const Arrays& a) { return Arrays{pad(a[0], {{1, 0}, {2, 1}}, 0.5)}; };
  all["flip"] = [](const Arrays& a) { return Arrays{flip(a[0])}; };
  all["flip(axis=1)"] = [](const Arrays& a) { return Arrays{flip(a[0], 1)}; };
  all["flipud"] = [](const Arrays& a) { return Arrays{flipud(a[0])}; };
  all["fliplr"] = [](const Arrays& a) { return Arrays{fliplr(a[0])}; };
  all["rot90"] = [](const Arrays& a) { return Arrays{rot90(a[0])}; };
  all["roll"] = [](const Arrays& a) { return Arrays{roll(a[0], 5)}; };
  all["roll(axis=1)"] = [](const Arrays& a) { return Arrays{roll(a[0], -2, 1)}; };
  all["diag"] = [](const Arrays& a) { return Arrays{diag(a[0])}; };
  all["diag(matrix)"] = [](const Arrays& a) { return Arrays{diag(a[0], 1)}; };
  all["diagonal"] = [](const Arrays& a) { return Arrays{diagonal(a[0], 1, 0, 2)}; };
  all["trace"] = [](const Arrays& a) { return Arrays{trace(a[0])}; };
  all["tril"] = [](const Arrays& a) { return Arrays{tril(a[0], 1)}; };
  all["triu"] = [](const Arrays& a) { return Arrays{triu(a[0], -1)}; };
  all["slice"] = [](const Arrays& a) { return Arrays{slice(a[0], {1, 0}, {4, 6}, {2, 3})}; };
  all["dynamic_slice"] = [](const Arrays& a) {
    Array i = a[1][0];
    return Arrays{dynamic_slice(a[0], {i, i}, {2, 3})};
  };
  all["dynamic_slice(past the end)"] = [](const Arrays& a) {
    Array i = a[1][0];
    return Arrays{dynamic_slice(a[0], {i + 1, i + 9}, {2, 3})};
  };
  all["dynamic_update_slice"] = [](const Arrays& a) {
    Array i = a[2][0];
    return Arrays{dynamic_update_slice(a[0], a[1], {i - 1, i})};
  };
}

void add_indexing(Functions& all) {
  all["index(1)"] = [](const Arrays& a) { return Arrays{a[0][1]}; };
  all["index(-1, ::2)"] = [](const Arrays& a) { return Arrays{a[0][{-1, slice(none, none, 2)}]}; };
  all["index(:, 4:0:-2)"] = [](const Arrays& a) { return Arrays{a[0][{slice(), slice(4, 0, -2)}]}; };
  all["index(..., newaxis, 1)"] = [](const Arrays& a) { return Arrays{a[0][{ellipsis, newaxis, 1}]}; };
  all["index(ids)"] = [](const Arrays& a) { return Arrays{a[0][a[1]]}; };
  all["index(ids, columns)"] = [](const Arrays& a) { return Arrays{a[0][{a[1], a[2]}]}; };
  all["index(:, :, ids)"] = [](const Arrays& a) { return Arrays{a[0][{slice(), slice(), a[1]}]}; };
  all["index(0, :, ids)"] = [](const Arrays& a) { return Arrays{a[0][{0, slice(), a[1]}]}; };
  all["at.get"] = [](const Arrays& a) {
    return Arrays{a[0].at(a[1] + 2).get({.mode = GatherScatterMode::kFillOrDrop, .fill_value = -1})};
  };
  all["at.set(1, ::2)"] = [](const Arrays& a) { return Arrays{a[0].at({1, slice(none, none, 2)}).set(0.5)}; };
  all["at.set(columns)"] = [](const Arrays& a) { return Arrays{a[0].at({1, a[1]}).set(a[2])}; };
  all["at.add"] = [](const Arrays& a) { return Arrays{a[0].at(a[1]).add(a[2])}; };
  all["at.add(ids, columns)"] = [](const Arrays& a) { return Arrays{a[0].at({a[1], a[2]}).add(a[3])}; };
  all["at.multiply"] = [](const Arrays& a) {
    return Arrays{a[0].at({slice(), slice(1, 3)}).multiply(a[1][0])};
  };
  all["at.min"] = [](const Arrays& a) { return Arrays{a[0].at(a[1]).min(a[2])}; };
  all["at.max"] = [](const Arrays& a) { return Arrays{a[0].at(a[1]).max(a[2])}; };
  all["take"] = [](const Arrays& a) { return Arrays{take(a[0], a[1])}; };
  all["take(axis=1)"] = [](const Arrays& a) { return Arrays{take(a[0], a[1], 1)}; };
  all["take_along_axis"] = [](const Arrays& a) { return Arrays{take_along_axis(a[0], a[1], 0)}; };
  all["put_along_axis"] = [](const Arrays& a) {
    auto first = [](const Array& x) { return x[{slice(), slice(0, 1)}]; };
    return Arrays{put_along_axis(a[0], first(a[1]), first(a[2]), 1)};
  };
}

void add_order(Functions& all) {
  all["sort"] = [](const Arrays& a) { return Arrays{sort(a[0])}; };
  all["sort(axis=1, descending)"] = [](const Arrays& a) {
    return Arrays{sort(a[0], {.axis = 1, .descending = true})};
  };
  all["sort(special)"] = [](const Arrays& a) { return Arrays{sort(a[0], {.axis = std::nullopt})}; };
  all["argsort"] = [](const Arrays& a) { return Arrays{argsort(a[0])}; };
  all["argsort(descending)"] = [](const Arrays& a) {
    return Arrays{argsort(a[0], {.axis = 0, .descending = true})};
  };
  all["lexsort"] = [](const Arrays& a) { return Arrays{lexsort(a)}; };
  all["top_k"] = [](const Arrays& a) { return Arrays{top_k(a[0], 3).first}; };
  all["top_k(places)"] = [](const Arrays& a) { return Arrays{top_k(a[0], 3).second}; };
  all["searchsorted"] = [](const Arrays& a) { return Arrays{searchsorted(a[0], a[1])}; };
  all["searchsorted(right)"] = [](const Arrays& a) { return Arrays{searchsorted(a[0], a[1], "right")}; };
  all["quantile"] = [](const Arrays& a) { return Arrays{quantile(a[0], array({0.25f, 0.7f}), {.axis = 1})}; };
  all["quantile(nearest)"] = [](const Arrays& a) {
    return Arrays{quantile(a[0], 0.3, {.axis = 0, .method = "nearest"})};
  };
  all["percentile"] = [](const Arrays& a) { return Arrays{percentile(a[0], 30.0)}; };
  all["median"] = [](const Arrays& a) { return Arrays{median(a[0], 1)}; };
  all["cumsum"] = [](const Arrays& a) { return Arrays{cumsum(a[0], 1)}; };
  all["cumsum(i32)"] = [](const Arrays& a) { return Arrays{cumsum(a[0] % 5)}; };
  all["cumprod"] = [](const Arrays& a) { return Arrays{cumprod(a[0], 1)}; };
  all["cumprod(i32)"] = [](const Arrays& a) { return Arrays{cumprod(a[0] % 5)}; };
  all["cummax"] = [](const Arrays& a) { return Arrays{cummax(a[0], 1)}; };
  all["cummin"] = [](const Arrays& a) { return Arrays{cummin(a[0], 1)}; };
  all["cumsum(reverse)"] = [](const Arrays& a) { return Arrays{cumsum(a[0], {.axis = 0, .reverse = true})}; };
  all["cumlogsumexp"] = [](const Arrays& a) { return Arrays{cumlogsumexp(a[0], 1)}; };
  all["diff"] = [](const Arrays& a) { return Arrays{diff(a[0], 2)}; };
  all["unique"] = [](const Arrays& a) { return Arrays{unique(a[0], 6)}; };
  all["unique(fill_value)"] = [](const Arrays& a) { return Arrays{unique(a[0], 6, 9)}; };
  all["unique_all"] = [](const Arrays& a) {
    UniqueResult all = unique_all(a[0], 4);
    return Arrays{all.values, all.indices, all.inverse_indices, all.counts};
  };
  all["nonzero"] = [](const Arrays& a) { return nonzero(a[0], 9); };
  all["flatnonzero"] = [](const Arrays& a) { return Arrays{flatnonzero(a[0], 26, 7)}; };
  all["bincount"] = [](const Arrays& a) { return Arrays{bincount(ravel(a[0]), 5)}; };
  all["bincount(weights)"] = [](const Arrays& a) { return Arrays{bincount(ravel(a[0]), 5, ravel(a[1]))}; };
  all["segment_sum"] = [](const Arrays& a) { return Arrays{segment_sum(a[0], a[1], 4)}; };
  all["segment_prod"] = [](const Arrays& a) { return Arrays{segment_prod(a[0], a[1], 4)}; };
  all["segment_max"] = [](const Arrays& a) { return Arrays{segment_max(a[0], a[1], 4)}; };
  all["segment_min"] = [](const Arrays& a) { return Arrays{segment_min(a[0], a[1], 4)}; };
}

}  // namespace

void add_arrays(Functions& all) {
  add_creation(all);
  add_moving(all);
  add_indexing(all);
  add_order(all);
}

}  // namespace lockstep::golden
