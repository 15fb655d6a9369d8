// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/associative_scan.h"

#include "lockstep/base/fail.h"
#include "lockstep/jit/traced_function.h"
#include "lockstep/ops/ops.h"

namespace lockstep::internal {
namespace {

using Arrays = std::vector<Array>;

/// The axis, counted from 0, of each array. Throws ShapeError if the arrays do not match.
std::vector<std::int64_t> axes_of(const TreeOutline& outline, const Arrays& elements, std::int64_t axis,
                                  const CallSite& site) {
  std::vector<std::int64_t> axes;
  std::int64_t length = -1;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const Aval& aval = elements[i].aval();
    const std::int64_t own = axis < 0 ? axis + aval.rank() : axis;
    if (own < 0 || own >= aval.rank()) {
      fail<ShapeError>("[associative_scan] {} is {}, which has no axis {} (at {})", outline.paths[i],
                       to_string(aval), axis, site.to_string());
    }
    const std::int64_t size = aval.shape[static_cast<std::size_t>(own)];
    if (length >= 0 && size != length) {
      fail<ShapeError>(
          "[associative_scan] {} is {} and has {} elements along axis {}, but {} has {} (at {}); all must "
          "have the same number",
          outline.paths[i], to_string(aval), size, axis, outline.paths[0], length, site.to_string());
    }
    length = size;
    axes.push_back(own);
  }
  return axes;
}

class Scan {
 public:
  Scan(const TreeFunction& function, tree::TreeRef exemplar, std::vector<std::int64_t> axes,
       const CallSite& site)
      : function_(function), exemplar_(exemplar), axes_(std::move(axes)), site_(site) {}

  /// Scans the sums of elements 0 and 1, 2 and 3 and so on, which gives the sums up to each odd element;
  /// adding one more element gives those up to the even ones.
  Arrays operator()(const Arrays& elements) const {
    const std::int64_t n = length(elements);
    if (n < 2) return elements;
    const Arrays odd = (*this)(combined(picked(elements, 0, n - 1, 2), picked(elements, 1, n, 2)));
    const Arrays later = picked(elements, 2, n, 2);
    Arrays even = picked(elements, 0, 1, 1);
    if (length(later) > 0) {
      const Arrays sums = combined(picked(odd, 0, length(later), 1), later);
      for (std::size_t i = 0; i < even.size(); ++i) even[i] = concatenate({even[i], sums[i]}, axes_[i]);
    }
    return interleaved(even, odd);
  }

  Arrays reversed(Arrays elements) const {
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = flip(elements[i], axes_[i]);
    return elements;
  }

 private:
  std::int64_t length(const Arrays& elements) const {
    return elements.empty() ? 0 : elements[0].shape()[static_cast<std::size_t>(axes_[0])];
  }

  Arrays picked(const Arrays& elements, std::int64_t from, std::int64_t to, std::int64_t stride) const {
    Arrays out;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const Shape& shape = elements[i].shape();
      Shape first(shape.size(), 0), last = shape, strides(shape.size(), 1);
      const auto axis = static_cast<std::size_t>(axes_[i]);
      first[axis] = std::min(from, shape[axis]);
      last[axis] = to;
      strides[axis] = stride;
      out.push_back(slice(elements[i], first, last, strides));
    }
    return out;
  }

  Arrays combined(const Arrays& a, const Arrays& b) const {
    std::vector<tree::AnyTree> given;
    given.push_back(tree::AnyTree::with_leaves(exemplar_, a));
    given.push_back(tree::AnyTree::with_leaves(exemplar_, b));
    const tree::AnyTree result = function_(given);
    Arrays sums = result->leaves();
    bool fits = sums.size() == a.size();
    for (std::size_t i = 0; fits && i < sums.size(); ++i)
      fits = sums[i].shape() == a[i].shape() && sums[i].dtype() == a[i].dtype();
    if (!fits) {
      std::string given_text, result_text;
      for (const Array& array : a) given_text += " " + to_string(array.aval());
      for (const Array& array : sums) result_text += " " + to_string(array.aval());
      fail<ShapeError>(
          "[associative_scan] the function gives{} for two trees of{} (at {}); its result must have the "
          "shapes and dtypes of its arguments, for any number of elements",
          result_text, given_text, site_.to_string());
    }
    return sums;
  }

  /// even[0], odd[0], even[1], ...; of as many, or with one more that is even.
  Arrays interleaved(const Arrays& even, const Arrays& odd) const {
    Arrays out;
    for (std::size_t i = 0; i < even.size(); ++i) {
      const auto axis = static_cast<std::size_t>(axes_[i]);
      const std::int64_t pairs = odd[i].shape()[axis];
      Shape shape = even[i].shape(), from(shape.size(), 0), to = shape;
      const bool one_more = shape[axis] > pairs;
      to[axis] = pairs;
      shape[axis] = 2 * pairs;
      Array both = reshape(stack({slice(even[i], from, to), odd[i]}, axes_[i] + 1), shape);
      if (one_more) {
        from[axis] = pairs;
        both = concatenate({both, slice(even[i], from, even[i].shape())}, axes_[i]);
      }
      out.push_back(both);
    }
    return out;
  }

  const TreeFunction& function_;
  tree::TreeRef exemplar_;
  std::vector<std::int64_t> axes_;
  CallSite site_;
};

}  // namespace

tree::AnyTree associative_scan_of(const TreeFunction& function, tree::TreeRef elements,
                                  const AssociativeScanOptions& options, const CallSite& site) {
  return run_trees_in_trace(
      "associative_scan", site, {&elements, 1}, [&](const std::vector<tree::TreeRef>& given) {
        CallSiteScope scope(site);
        const Arrays arrays = given[0].leaves();
        const Scan scan(function, elements,
                        axes_of(outline(given[0], "elements"), arrays, options.axis, site), site);
        return tree::AnyTree::with_leaves(
            elements, options.reverse ? scan.reversed(scan(scan.reversed(arrays))) : scan(arrays));
      });
}

}  // namespace lockstep::internal
