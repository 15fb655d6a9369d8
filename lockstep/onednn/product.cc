// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <mutex>

#include "lockstep/base/fail.h"
#include "lockstep/onednn/computations.h"
#include "lockstep/onednn/plan.h"

namespace lockstep::onednn {
namespace {

/// Rows of the result that a thread computes at once: a quarter, but so many that what each piece does with
/// the whole second matrix is small beside the multiplications. The pieces depend on the shapes only. Pieces
/// of columns, and of 1,024 rows, take longer than those of 512.
std::int64_t rows_of_a_piece(std::int64_t m) {
  constexpr std::int64_t kFewest = 64, kMost = 512, kVector = 16;
  return std::clamp((m / 4 + kVector - 1) / kVector * kVector, kFewest, kMost);
}

struct Sizes {
  std::int64_t m, n, k;  ///< [n, m], transposed, times [n, k]
  std::int64_t rows;     ///< of the m that are computed
  auto operator<=>(const Sizes&) const = default;
};

std::optional<Plan> make_plan(const Library& library, const Sizes& s) {
  const Layout lhs{{s.rows, s.n}, {1, s.m}}, rhs{{s.n, s.k}, {s.k, 1}}, result{{s.rows, s.k}, {s.k, 1}};
  std::vector<MemoryDescHandle> arrays;
  for (const Layout* each : {&lhs, &rhs, &result}) arrays.push_back(describe(library, *each));
  PrimitiveDesc* made = nullptr;
  if (library.call.matmul_primitive_desc_create(&made, library.engine, arrays[0].get(), arrays[1].get(),
                                                nullptr, arrays[2].get(), library.attributes) != 0)
    return std::nullopt;
  return Plan::make(library, PrimitiveDescHandle(made), std::move(arrays),
                    {{kSource, kArgSource}, {kWeights, kArgWeights}, {kDestination, kArgDestination}});
}

const Plan* plan_of(const Library& library, const Sizes& sizes) {
  static std::mutex& mutex = *new std::mutex;
  static auto& plans = *new std::map<Sizes, std::optional<Plan>>;
  std::lock_guard lock(mutex);
  auto found = plans.find(sizes);
  if (found == plans.end()) {
    const OneThread one(library);
    found = plans.emplace(sizes, make_plan(library, sizes)).first;
  }
  return found->second ? &*found->second : nullptr;
}

}  // namespace

bool computes_product(std::int64_t m, std::int64_t n, std::int64_t k) {
  const Library* library = find_library();
  if (library == nullptr) return false;
  return plan_of(*library, {m, n, k, std::min(m, rows_of_a_piece(m))}) != nullptr;
}

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* lhs, const float* rhs,
              float* result, const ForEach& for_each) {
  const Library& library = *find_library();
  const std::int64_t most = rows_of_a_piece(m);
  for_each((m + most - 1) / most, [&](std::int64_t i) {
    const OneThread one(library);
    const std::int64_t first = i * most, rows = std::min(most, m - first);
    const Plan* plan = plan_of(library, {m, n, k, rows});
    if (plan == nullptr)
      fail(
          "{} has no fast code on this machine for a product of a program that was compiled on another: "
          "compile it here",
          library.description);
    plan->run(const_cast<float*>(lhs) + first, const_cast<float*>(rhs), result + first * k);
  });
}

}  // namespace lockstep::onednn
