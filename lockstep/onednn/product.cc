// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "lockstep/base/fail.h"
#include "lockstep/onednn/computations.h"
#include "lockstep/onednn/plan.h"

namespace lockstep::onednn {
namespace {

/// [n, m], transposed, times [n, k], in pieces of the rows or columns of the result.
struct Product {
  std::int64_t m, n, k;
  ProductForm form;

  std::int64_t divided() const { return form == ProductForm::kColumns ? k : m; }
  /// The rows or columns of a piece, the last of which may be smaller: a quarter, but so many that what each
  /// piece does with the whole other matrix is small beside the multiplications. It depends on the shapes
  /// only.
  std::int64_t piece() const {
    constexpr std::int64_t kFewest = 64, kMost = 512, kVector = 16;
    const std::int64_t quarter = (divided() / 4 + kVector - 1) / kVector * kVector;
    return std::min(divided(), std::clamp(quarter, kFewest, kMost));
  }
};

std::optional<Plan> make_plan(const Library& library, const Product& p, std::int64_t piece) {
  const auto plan = [&](const Layout& source, const Layout& weights, const Layout& computed,
                        const Layout& result) -> std::optional<Plan> {
    std::vector<MemoryDescHandle> arrays;
    for (const Layout* each : {&source, &weights, &result}) arrays.push_back(describe(library, *each));
    PrimitiveDesc* made = nullptr;
    if (library.call.matmul_primitive_desc_create(&made, library.engine, arrays[0].get(), arrays[1].get(),
                                                  nullptr, describe(library, computed).get(),
                                                  library.attributes) != 0)
      return std::nullopt;
    return Plan::make(library, PrimitiveDescHandle(made), std::move(arrays),
                      {{kSource, kArgSource}, {kWeights, kArgWeights}, {kDestination, kArgDestination}});
  };
  if (p.form == ProductForm::kTransposed)
    return plan({{p.k, p.n}, {1, p.k}}, {{p.n, piece}, {p.m, 1}}, {{p.k, piece}, {piece, 1}},
                {{p.k, piece}, {1, p.k}});
  const std::int64_t rows = p.form == ProductForm::kRows ? piece : p.m,
                     columns = p.form == ProductForm::kRows ? p.k : piece;
  const Layout result{{rows, columns}, {p.k, 1}};
  return plan({{rows, p.n}, {1, p.m}}, {{p.n, columns}, {p.k, 1}}, result, result);
}

/// The plan of a piece, made once; null if oneDNN has no fast code.
const Plan* plan_of(const Library& library, const Product& p, std::int64_t piece) {
  static std::mutex& mutex = *new std::mutex;
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, ProductForm, std::int64_t>;
  static auto& plans = *new std::map<Key, std::optional<Plan>>;
  const Key key(p.m, p.n, p.k, p.form, piece);
  std::lock_guard lock(mutex);
  auto found = plans.find(key);
  if (found == plans.end()) {
    const OneThread one(library);
    found = plans.emplace(key, make_plan(library, p, piece)).first;
  }
  return found->second ? &*found->second : nullptr;
}

}  // namespace

ProductForm form_of_product(std::int64_t m, std::int64_t n, std::int64_t k) {
  // Long columns of a wide matrix are slow to copy together for a piece of the rows.
  if (n >= 768 && m >= 1024 && m >= 2 * k) return ProductForm::kTransposed;
  return k >= 2 * m && k >= 1024 ? ProductForm::kColumns : ProductForm::kRows;
}

bool computes_product(std::int64_t m, std::int64_t n, std::int64_t k) {
  const Library* library = find_library();
  if (library == nullptr) return false;
  const Product p{m, n, k, form_of_product(m, n, k)};
  return plan_of(*library, p, p.piece()) != nullptr;
}

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* lhs, const float* rhs,
              float* result, const ForEach& for_each, ProductForm form) {
  const Library& library = *find_library();
  const Product p{m, n, k, form};
  for_each((p.divided() + p.piece() - 1) / p.piece(), [&](std::int64_t i) {
    const OneThread one(library);
    const std::int64_t first = i * p.piece();
    const Plan* plan = plan_of(library, p, std::min(p.piece(), p.divided() - first));
    if (plan == nullptr)
      fail(
          "{} has no fast code on this machine for a product of a program that was compiled on another: "
          "compile it here",
          library.description);
    auto *x = const_cast<float*>(lhs), *y = const_cast<float*>(rhs);
    if (form == ProductForm::kTransposed) return plan->run(y, x + first, result + first * k);
    if (form == ProductForm::kColumns) return plan->run(x, y + first, result + first);
    plan->run(x + first, y, result + first * k);
  });
}

}  // namespace lockstep::onednn
