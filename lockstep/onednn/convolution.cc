// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "lockstep/base/fail.h"
#include "lockstep/base/strided_copy.h"
#include "lockstep/onednn/computations.h"
#include "lockstep/onednn/few_pixels.h"
#include "lockstep/onednn/plan.h"

namespace lockstep::onednn {
namespace {

/// The multiplications of a piece, at least: some 0.1 ms, beside which the work of handing it over is small.
/// The pieces depend on the shapes only, so that the result does not depend on the number of threads.
constexpr double kPiece = 1 << 22;
/// The gradients by the kernels of all pieces are kept until they are summed.
constexpr std::int64_t kMostPartialSums = 16, kMostPartialBytes = 64 << 20;

/// What is computed of a convolution in oneDNN's words: its results, or a gradient.
enum class Kind { kResults, kByImages, kByKernels };

/// A convolution in oneDNN's words: of images (batch, features, ...) with kernels ([groups,] output features,
/// features, ...) to results (batch, output features, ...).
struct Problem {
  Kind kind;
  Layout images, kernels, results;
  Integers strides, dilates, low, high;

  std::int64_t batch() const { return images.sizes[0]; }
  /// The array of the batch that is read, and the one that is written.
  const Layout& read() const { return kind == Kind::kByImages ? results : images; }
  const Layout& written() const { return kind == Kind::kByImages ? images : results; }
  /// For one image.
  double multiplications() const {
    return static_cast<double>(product(kernels.sizes)) * static_cast<double>(product(results.sizes, 2));
  }
  /// Of this many images.
  Problem part(std::int64_t count) const {
    Problem some = *this;
    some.images.sizes[0] = some.results.sizes[0] = count;
    return some;
  }
};

/// The elements that `kernel` elements, `dilation` apart, lie over.
std::int64_t window(std::int64_t kernel, std::int64_t dilation) { return (kernel - 1) * dilation + 1; }

/// The padding behind the images, so that there are as many windows as results.
Integers padding_after(const Problem& p) {
  Integers high;
  const std::size_t of_kernels = p.kernels.sizes.size() - p.low.size();
  for (std::size_t i = 0; i < p.low.size(); ++i)
    high.push_back((p.results.sizes[i + 2] - 1) * p.strides[i] +
                   window(p.kernels.sizes[i + of_kernels], p.dilates[i] + 1) - p.images.sizes[i + 2] -
                   p.low[i]);
  return high;
}

/// Splits a dimension of the kernels into groups, outermost, and what is in each.
void split_groups(Layout& kernels, std::size_t dimension, std::int64_t groups) {
  if (groups == 1) return;
  const std::int64_t size = kernels.sizes[dimension] / groups, stride = kernels.strides[dimension];
  kernels.sizes[dimension] = size;
  kernels.sizes.insert(kernels.sizes.begin(), groups);
  kernels.strides.insert(kernels.strides.begin(), size * stride);
}

Kind kind_of(const Convolution& c) {
  if (is_dilated(c)) return Kind::kByImages;
  if (c.batch_groups > 1) return Kind::kByKernels;
  const std::int64_t kernel = product(layout_of(c.rhs, c.rhs_spec).sizes, 2),
                     results = product(layout_of(c.result, c.out_spec).sizes, 2);
  // A kernel of more pixels than the result: it is the gradient by the kernels of an ordinary convolution.
  return c.feature_groups == 1 && kernel > results ? Kind::kByKernels : Kind::kResults;
}

Problem problem_of(const Convolution& c) {
  const Kind kind = kind_of(c);
  const bool swapped = kind == Kind::kByKernels;
  const Layout lhs = layout_of(c.lhs, c.lhs_spec, swapped),
               rhs = layout_of(c.rhs, c.rhs_spec, kind != Kind::kResults),
               result = layout_of(c.result, c.out_spec, swapped);
  Problem p{kind, {}, {}, {}, {}, {}, c.low, c.high};
  if (kind == Kind::kResults) {
    p.images = lhs, p.kernels = rhs, p.results = result;
    p.strides = c.strides, p.dilates = c.rhs_dilation;
    split_groups(p.kernels, 0, c.feature_groups);
  } else if (kind == Kind::kByKernels) {
    p.images = lhs, p.kernels = result, p.results = rhs;
    p.strides = c.rhs_dilation, p.dilates = c.strides;
    split_groups(p.kernels, 0, c.batch_groups);
  } else {
    p.images = result, p.kernels = rhs, p.results = lhs;
    p.strides = c.lhs_dilation, p.dilates = c.rhs_dilation;
    for (std::size_t i = 0; i < p.low.size(); ++i)
      p.low[i] = window(rhs.sizes[i + 2], c.rhs_dilation[i]) - 1 - c.low[i];
    split_groups(p.kernels, 1, c.feature_groups);
  }
  for (std::int64_t& d : p.dilates) --d;
  if (kind != Kind::kResults) p.high = padding_after(p);
  if (kind == Kind::kByKernels)
    for (std::int64_t& d : p.high) d = std::max<std::int64_t>(0, d);
  return p;
}

std::optional<Plan> plan_in_order(const Library& library, const Problem& p, bool callers_order) {
  const auto given = [&](const Layout& layout) {
    return callers_order ? describe(library, layout) : describe_any(library, layout);
  };
  const MemoryDescHandle images = given(p.images), kernels = describe_any(library, p.kernels),
                         results = given(p.results);
  PrimitiveDesc* made = nullptr;
  const int status = library.call.convolution_forward_primitive_desc_create(
      &made, library.engine, kForwardTraining, kDirect, images.get(), kernels.get(), nullptr, results.get(),
      p.strides.data(), p.dilates.data(), p.low.data(), p.high.data(), library.attributes);
  PrimitiveDescHandle primitive(made);
  if (status != 0) return std::nullopt;
  const auto plan = [&](PrimitiveDescHandle desc, const Layout& first, const Layout& second,
                        const Layout& result, const std::vector<Plan::Role>& roles) {
    std::vector<MemoryDescHandle> arrays;
    for (const Layout* each : {&first, &second, &result}) arrays.push_back(describe(library, *each));
    return Plan::make(library, std::move(desc), std::move(arrays), roles);
  };
  if (p.kind == Kind::kResults)
    return plan(std::move(primitive), p.images, p.kernels, p.results,
                {{kSource, kArgSource}, {kWeights, kArgWeights}, {kDestination, kArgDestination}});
  PrimitiveDesc* backward = nullptr;
  if (p.kind == Kind::kByImages) {
    if (library.call.convolution_backward_data_primitive_desc_create(
            &backward, library.engine, kDirect, images.get(), kernels.get(), results.get(), p.strides.data(),
            p.dilates.data(), p.low.data(), p.high.data(), primitive.get(), library.attributes) != 0)
      return std::nullopt;
    return plan(
        PrimitiveDescHandle(backward), p.results, p.kernels, p.images,
        {{kDiffDestination, kArgDiffDestination}, {kWeights, kArgWeights}, {kDiffSource, kArgDiffSource}});
  }
  if (library.call.convolution_backward_weights_primitive_desc_create(
          &backward, library.engine, kDirect, images.get(), kernels.get(), nullptr, results.get(),
          p.strides.data(), p.dilates.data(), p.low.data(), p.high.data(), primitive.get(),
          library.attributes) != 0)
    return std::nullopt;
  return plan(
      PrimitiveDescHandle(backward), p.images, p.results, p.kernels,
      {{kSource, kArgSource}, {kDiffDestination, kArgDiffDestination}, {kDiffWeights, kArgDiffWeights}});
}

std::optional<Plan> make_plan(const Library& library, const Problem& problem) {
  const OneThread one(library);
  if (std::optional<Plan> plan = plan_in_order(library, problem, true)) return plan;
  return plan_in_order(library, problem, false);
}

Integers key_of(const Problem& p) {
  Integers key = {static_cast<std::int64_t>(p.kind)};
  for (const Integers* each : {&p.images.sizes, &p.images.strides, &p.kernels.sizes, &p.kernels.strides,
                               &p.results.sizes, &p.results.strides, &p.strides, &p.dilates, &p.low, &p.high})
    key.insert(key.end(), each->begin(), each->end());
  return key;
}

/// The plan, made once; null if oneDNN has no fast code.
const Plan* plan_of(const Library& library, const Problem& problem) {
  static std::mutex& mutex = *new std::mutex;
  static auto& plans = *new std::map<Integers, std::optional<Plan>>;
  const Integers key = key_of(problem);
  std::lock_guard lock(mutex);
  const auto found = plans.find(key);
  if (found != plans.end()) return found->second ? &*found->second : nullptr;
  const std::optional<Plan>& kept = plans.emplace(key, make_plan(library, problem)).first->second;
  return kept ? &*kept : nullptr;
}

/// The images of a piece; the last piece may have fewer.
std::int64_t images_of_a_piece(const Problem& p) {
  const double each = p.multiplications();
  auto images = static_cast<std::int64_t>(kPiece / std::max(each, 1.0)) + 1;
  if (p.kind == Kind::kByKernels) {
    const std::int64_t bytes = product(p.kernels.sizes) * static_cast<std::int64_t>(sizeof(float));
    const std::int64_t most = std::clamp<std::int64_t>(kMostPartialBytes / bytes, 1, kMostPartialSums);
    images = std::max(images, (p.batch() + most - 1) / most);
  }
  images = std::min(images, p.batch());
  const std::int64_t count = (p.batch() + images - 1) / images;
  return (p.batch() + count - 1) / count;
}

/// The kernels with the elements of each spatial dimension in reverse.
Scratch reversed(const Convolution& c, const float* kernels) {
  Integers strides = internal::row_major_strides(c.rhs);
  std::int64_t first = 0;
  for (std::size_t i = 2; i < c.rhs_spec.size(); ++i) {
    const auto d = static_cast<std::size_t>(c.rhs_spec[i]);
    first += (c.rhs[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  Scratch copy(static_cast<std::size_t>(product(c.rhs)) * sizeof(float));
  internal::copy_strided(copy.data(), kernels + first, sizeof(float), c.rhs, strides);
  return copy;
}

float* part(const float* data, const Layout& layout, std::int64_t first) {
  return const_cast<float*>(data) + first * layout.strides[0];
}

/// A problem, in pieces of some images each.
struct Pieces {
  const Problem& problem;
  std::int64_t size = images_of_a_piece(problem), count = (problem.batch() + size - 1) / size;
  const Plan* plans[2];  ///< of all pieces but the last one, and of that

  Pieces(const Library& library, const Problem& of) : problem(of) {
    plans[0] = plan_of(library, problem.part(size));
    plans[1] = plan_of(library, problem.part(problem.batch() - (count - 1) * size));
    if (plans[0] == nullptr || plans[1] == nullptr)
      fail(
          "{} has no fast code on this machine for a convolution of a program that was compiled on another: "
          "compile it here",
          library.description);
  }
  std::size_t which(std::int64_t i) const { return i + 1 < count ? 0 : 1; }
};

/// Each piece of the batch with the same kernels.
void convolve_images(const Library& library, const Pieces& pieces, const float* images, const float* kernels,
                     float* result, const ForEach& for_each) {
  const Problem& p = pieces.problem;
  const OneThread one(library);
  std::optional<Scratch> scratch[2];
  void* prepared[2];
  for (std::size_t i : {0, 1})
    prepared[i] = pieces.plans[i]->prepare(1, const_cast<float*>(kernels), scratch[i]);
  for_each(pieces.count, [&](std::int64_t i) {
    const OneThread mine(library);
    const std::size_t which = pieces.which(i);
    const Plan& plan = *pieces.plans[which];
    std::optional<Scratch> copy;
    void* read = plan.prepare(0, part(images, p.read(), i * pieces.size), copy);
    plan.run(read, prepared[which], part(result, p.written(), i * pieces.size));
  });
}

/// The sum over the pieces of the batch.
void convolve_by_kernels(const Library& library, const Pieces& pieces, const float* images,
                         const float* results, float* result, const ForEach& for_each) {
  const Problem& p = pieces.problem;
  const auto elements = static_cast<std::size_t>(product(p.kernels.sizes));
  const Scratch sums((static_cast<std::size_t>(pieces.count) - 1) * elements * sizeof(float));
  for_each(pieces.count, [&](std::int64_t i) {
    const OneThread mine(library);
    const Plan& plan = *pieces.plans[pieces.which(i)];
    std::optional<Scratch> of_images, of_results;
    void* x = plan.prepare(0, part(images, p.images, i * pieces.size), of_images);
    void* y = plan.prepare(1, part(results, p.results, i * pieces.size), of_results);
    plan.run(x, y, i == 0 ? result : sums.data() + static_cast<std::size_t>(i - 1) * elements);
  });
  for (std::int64_t i = 1; i < pieces.count; ++i) {
    const float* sum = sums.data() + static_cast<std::size_t>(i - 1) * elements;
    for (std::size_t j = 0; j < elements; ++j) result[j] += sum[j];
  }
}

}  // namespace

bool computes(const Convolution& c) {
  const Library* library = find_library();
  if (library == nullptr || c.lhs.size() < 3 || c.lhs.size() > 5) return false;
  const auto not_one = [](std::int64_t n) { return n != 1; };
  if (is_dilated(c) && (c.batch_groups > 1 || std::ranges::any_of(c.strides, not_one))) return false;
  const Problem problem = problem_of(c);
  // The windows may end before the images do, but not by a stride.
  for (std::size_t i = 0; i < problem.low.size(); ++i) {
    const std::int64_t least = problem.kind == Kind::kByImages ? 1 - problem.strides[i] : 0;
    if (problem.low[i] < 0 || problem.high[i] < least) return false;
  }
  // XLA's plain convolutions are fast where there is little work, or for fewer images than threads.
  constexpr std::int64_t kFewestImages = 4, kFewest = 1 << 12;
  const double all = problem.multiplications() * static_cast<double>(problem.batch());
  const bool plain = !is_dilated(c) && c.feature_groups == 1 && c.batch_groups == 1;
  if (plain && (problem.batch() < kFewestImages || all < kPiece / 4)) return false;
  if (all < kFewest) return false;
  return has_few_pixels(c) || plan_of(*library, problem.part(images_of_a_piece(problem))) != nullptr;
}

void convolve(const Convolution& c, const float* lhs, const float* rhs, float* result,
              const ForEach& for_each) {
  if (has_few_pixels(c)) return convolve_few_pixels(c, lhs, rhs, result, for_each);
  const Library& library = *find_library();
  const Problem problem = problem_of(c);
  const Pieces pieces(library, problem);
  if (problem.kind == Kind::kResults) return convolve_images(library, pieces, lhs, rhs, result, for_each);
  if (problem.kind == Kind::kByKernels)
    return convolve_by_kernels(library, pieces, lhs, rhs, result, for_each);
  const Scratch kernels = reversed(c, rhs);
  convolve_images(library, pieces, lhs, kernels.data(), result, for_each);
}

}  // namespace lockstep::onednn
