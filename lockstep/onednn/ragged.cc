// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/onednn/computations.h"
#include "lockstep/onednn/library.h"

namespace lockstep::onednn {
namespace {

/// Rows that stand one after another in one group.
struct Run {
  std::int64_t first, rows;
  std::int32_t group;
};

/// The runs of at most `most` rows. A run of rows without a group has the group -1.
std::vector<Run> runs_of(const Ragged& r, std::int64_t most) {
  std::vector<Run> runs;
  for (std::int64_t i = 0; i < r.rows; ++i) {
    const std::int32_t group = r.group[i] < 0 || r.group[i] >= r.groups ? -1 : r.group[i];
    if (!runs.empty() && runs.back().group == group && runs.back().rows < most)
      ++runs.back().rows;
    else
      runs.push_back({i, 1, group});
  }
  return runs;
}

/// How many rows or columns of the result a thread computes at once. The pieces depend on the operands only,
/// and so does the result.
constexpr std::int64_t kOfAPiece = 128;

std::int64_t pieces(std::int64_t size) { return (size + kOfAPiece - 1) / kOfAPiece; }

/// c, [m, n], = beta c + a b, row-major.
void multiply(const Library& library, char transpose_a, char transpose_b, std::int64_t m, std::int64_t n,
              std::int64_t k, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
              float* c, std::int64_t ldc) {
  const int status = library.call.sgemm(transpose_a, transpose_b, m, n, k, 1, a, lda, b, ldb, beta, c, ldc);
  if (status != 0) fail("{} failed in sgemm (status {})", library.description, status);
}

}  // namespace

void ragged_dot(const Ragged& r, bool transposed, float* result, const ForEach& for_each) {
  const Library& library = *find_library();
  const std::vector<Run> runs = runs_of(r, kOfAPiece);
  for_each(static_cast<std::int64_t>(runs.size()), [&](std::int64_t i) {
    const Run& run = runs[static_cast<std::size_t>(i)];
    float* out = result + run.first * r.n;
    if (run.group < 0 || r.k == 0) {
      std::fill_n(out, run.rows * r.n, 0.0f);
      return;
    }
    const OneThread one(library);
    multiply(library, 'N', transposed ? 'T' : 'N', run.rows, r.n, r.k, r.x + run.first * r.k, r.k,
             r.y + run.group * r.k * r.n, transposed ? r.k : r.n, 0, out, r.n);
  });
}

void ragged_contracting_dot(const Ragged& r, float* result, const ForEach& for_each) {
  const Library& library = *find_library();
  std::vector<std::vector<Run>> runs(static_cast<std::size_t>(r.groups));
  for (const Run& run : runs_of(r, r.rows))
    if (run.group >= 0) runs[static_cast<std::size_t>(run.group)].push_back(run);
  const std::int64_t of_a_group = pieces(r.k);
  for_each(r.groups * of_a_group, [&](std::int64_t i) {
    const std::int64_t group = i / of_a_group, column = i % of_a_group * kOfAPiece,
                       columns = std::min(kOfAPiece, r.k - column);
    float* out = result + (group * r.k + column) * r.n;
    const std::vector<Run>& mine = runs[static_cast<std::size_t>(group)];
    if (mine.empty()) std::fill_n(out, columns * r.n, 0.0f);
    const OneThread one(library);
    for (std::size_t run = 0; run < mine.size(); ++run)
      multiply(library, 'T', 'N', columns, r.n, mine[run].rows, r.x + mine[run].first * r.k + column, r.k,
               r.y + mine[run].first * r.n, r.n, run == 0 ? 0.0f : 1.0f, out, r.n);
  });
}

}  // namespace lockstep::onednn
