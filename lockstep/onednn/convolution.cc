// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "lockstep/base/fail.h"
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

/// A convolution in oneDNN's words: of images (batch, features, ...) with kernels (output features, features,
/// ...) to results (batch, output features, ...); or, if the result has fewer elements in each window than
/// the kernels, the gradient of such a one by its kernels.
struct Problem {
  bool by_kernels = false;
  Layout images, kernels, results;
  Integers strides, dilates, low, high;

  std::int64_t batch() const { return images.sizes[0]; }
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

Problem problem_of(const Convolution& c) {
  const Layout rhs = layout_of(c.rhs, c.rhs_spec, false), result = layout_of(c.result, c.out_spec, false);
  Problem problem;
  problem.by_kernels = product(rhs.sizes, 2) > product(result.sizes, 2);
  problem.low = c.low;
  if (!problem.by_kernels) {
    problem.images = layout_of(c.lhs, c.lhs_spec, false);
    problem.kernels = rhs, problem.results = result;
    problem.strides = c.strides, problem.dilates = c.rhs_dilation, problem.high = c.high;
  } else {
    problem.images = layout_of(c.lhs, c.lhs_spec, true);
    problem.kernels = layout_of(c.result, c.out_spec, true);
    problem.results = layout_of(c.rhs, c.rhs_spec, true);
    problem.strides = c.rhs_dilation, problem.dilates = c.strides;
    for (std::size_t i = 0; i < c.low.size(); ++i) {
      const std::int64_t read = (problem.results.sizes[i + 2] - 1) * problem.strides[i] +
                                (problem.kernels.sizes[i + 2] - 1) * problem.dilates[i] + 1;
      problem.high.push_back(std::max<std::int64_t>(0, read - problem.images.sizes[i + 2] - c.low[i]));
    }
  }
  for (std::int64_t& d : problem.dilates) --d;
  return problem;
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
  std::vector<MemoryDescHandle> arrays;
  arrays.push_back(describe(library, p.images));
  if (!p.by_kernels) {
    arrays.push_back(describe(library, p.kernels));
    arrays.push_back(describe(library, p.results));
    return Plan::make(library, std::move(primitive), std::move(arrays),
                      {{kSource, kArgSource}, {kWeights, kArgWeights}, {kDestination, kArgDestination}});
  }
  PrimitiveDesc* backward = nullptr;
  if (library.call.convolution_backward_weights_primitive_desc_create(
          &backward, library.engine, kDirect, images.get(), kernels.get(), nullptr, results.get(),
          p.strides.data(), p.dilates.data(), p.low.data(), p.high.data(), primitive.get(),
          library.attributes) != 0)
    return std::nullopt;
  arrays.push_back(describe(library, p.results));
  arrays.push_back(describe(library, p.kernels));
  return Plan::make(
      library, PrimitiveDescHandle(backward), std::move(arrays),
      {{kSource, kArgSource}, {kDiffDestination, kArgDiffDestination}, {kDiffWeights, kArgDiffWeights}});
}

std::optional<Plan> make_plan(const Library& library, const Problem& problem) {
  const OneThread one(library);
  if (std::optional<Plan> plan = plan_in_order(library, problem, true)) return plan;
  return plan_in_order(library, problem, false);
}

Integers key_of(const Problem& p) {
  Integers key = {p.by_kernels};
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
  if (p.by_kernels) {
    const std::int64_t bytes = product(p.kernels.sizes) * static_cast<std::int64_t>(sizeof(float));
    const std::int64_t most = std::clamp<std::int64_t>(kMostPartialBytes / bytes, 1, kMostPartialSums);
    images = std::max(images, (p.batch() + most - 1) / most);
  }
  images = std::min(images, p.batch());
  const std::int64_t count = (p.batch() + images - 1) / images;
  return (p.batch() + count - 1) / count;
}

}  // namespace

bool computes(const Convolution& convolution) {
  const Library* library = find_library();
  if (library == nullptr || convolution.lhs.size() < 3 || convolution.lhs.size() > 5) return false;
  const Problem problem = problem_of(convolution);
  const auto negative = [](std::int64_t n) { return n < 0; };
  if (std::ranges::any_of(problem.low, negative) || std::ranges::any_of(problem.high, negative)) return false;
  // Fewer images would leave threads without work.
  constexpr std::int64_t kFewest = 4;
  if (problem.batch() < kFewest ||
      problem.multiplications() * static_cast<double>(problem.batch()) < kPiece / 4)
    return false;
  if (has_few_pixels(convolution)) return true;
  return plan_of(*library, problem.part(images_of_a_piece(problem))) != nullptr;
}

void convolve(const Convolution& convolution, const float* lhs, const float* rhs, float* result,
              const ForEach& for_each) {
  const Library& library = *find_library();
  if (has_few_pixels(convolution)) return convolve_few_pixels(convolution, lhs, rhs, result, for_each);
  const Problem problem = problem_of(convolution);
  const std::int64_t size = images_of_a_piece(problem), count = (problem.batch() + size - 1) / size,
                     rest = problem.batch() - (count - 1) * size;
  const Plan* plans[] = {plan_of(library, problem.part(size)), plan_of(library, problem.part(rest))};
  if (plans[0] == nullptr || plans[1] == nullptr)
    fail(
        "{} has no fast code on this machine for a convolution of a program that was compiled on another: "
        "compile it here",
        library.description);
  const auto plan_of_piece = [&](std::int64_t i) { return i + 1 < count ? 0 : 1; };
  const auto part = [](const float* data, const Layout& layout, std::int64_t first) {
    return const_cast<float*>(data) + first * layout.strides[0];
  };
  if (!problem.by_kernels) {
    const OneThread one(library);
    std::optional<Scratch> scratch[2];
    void* kernels[2];
    for (int i : {0, 1}) kernels[i] = plans[i]->prepare(1, const_cast<float*>(rhs), scratch[i]);
    for_each(count, [&](std::int64_t i) {
      const OneThread mine(library);
      const Plan& plan = *plans[plan_of_piece(i)];
      std::optional<Scratch> of_images;
      void* images = plan.prepare(0, part(lhs, problem.images, i * size), of_images);
      plan.run(images, kernels[plan_of_piece(i)], part(result, problem.results, i * size));
    });
    return;
  }
  const auto elements = static_cast<std::size_t>(product(problem.kernels.sizes));
  const Scratch sums((static_cast<std::size_t>(count) - 1) * elements * sizeof(float));
  for_each(count, [&](std::int64_t i) {
    const OneThread mine(library);
    const Plan& plan = *plans[plan_of_piece(i)];
    std::optional<Scratch> of_images, of_results;
    void* images = plan.prepare(0, part(lhs, problem.images, i * size), of_images);
    void* results = plan.prepare(1, part(rhs, problem.results, i * size), of_results);
    plan.run(images, results, i == 0 ? result : sums.data() + static_cast<std::size_t>(i - 1) * elements);
  });
  for (std::int64_t i = 1; i < count; ++i) {
    const float* sum = sums.data() + static_cast<std::size_t>(i - 1) * elements;
    for (std::size_t j = 0; j < elements; ++j) result[j] += sum[j];
  }
}

}  // namespace lockstep::onednn
