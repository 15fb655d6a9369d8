// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "lockstep/onednn/computations.h"
#include "lockstep/onednn/library.h"

namespace lockstep::onednn {
namespace {

/// Rows that stand one after another in one group, or without a group: -1.
struct Run {
  std::int64_t first, rows;
  std::int32_t group;
};

std::int32_t group_of(const Ragged& r, std::int64_t row) {
  const std::int32_t group = r.group[row];
  return group < 0 || group >= r.groups ? -1 : group;
}

/// Appends rows that stand one after another as runs of at most `most`.
void append(std::vector<Run>& runs, std::int64_t first, std::int64_t rows, std::int32_t group,
            std::int64_t most) {
  for (std::int64_t row = 0; row < rows; row += most)
    runs.push_back({first + row, std::min(most, rows - row), group});
}

/// The runs of at most `most` rows, and the rows' order. Where few rows of a group stand together, all are
/// sorted by their groups.
struct Order {
  std::vector<Run> runs;
  std::vector<std::int64_t> sorted;  ///< the row at each place; empty: each is at its own

  Order(const Ragged& r, std::int64_t most) {
    std::int64_t first = 0, found = 0;
    for (std::int64_t i = 1; i <= r.rows; ++i) {
      if (i < r.rows && group_of(r, i) == group_of(r, first)) continue;
      append(runs, first, i - first, group_of(r, first), most);
      first = i;
      ++found;
    }
    if (found <= 2 * (r.groups + 1)) return;
    std::vector<std::int64_t> ends(static_cast<std::size_t>(r.groups) + 2, 0);  // of -1, 0, 1, ...
    const auto place = [](std::int32_t group) { return static_cast<std::size_t>(group + 1); };
    for (std::int64_t i = 0; i < r.rows; ++i) ++ends[place(group_of(r, i)) + 1];
    runs.clear();
    for (std::int32_t group = -1; group < r.groups; ++group) {
      const std::size_t at = place(group);
      append(runs, ends[at], ends[at + 1], group, most);
      ends[at + 1] += ends[at];
    }
    sorted.resize(static_cast<std::size_t>(r.rows));
    for (std::int64_t i = 0; i < r.rows; ++i)
      sorted[static_cast<std::size_t>(ends[place(group_of(r, i))]++)] = i;
  }

  /// The rows of a run as they are multiplied: in place, or copied together into `scratch`.
  const float* rows_of(const Run& run, const float* rows, std::int64_t columns,
                       std::vector<float>& scratch) const {
    if (sorted.empty()) return rows + run.first * columns;
    scratch.resize(static_cast<std::size_t>(run.rows * columns));
    for (std::int64_t i = 0; i < run.rows; ++i)
      std::copy_n(rows + sorted[static_cast<std::size_t>(run.first + i)] * columns, columns,
                  scratch.data() + i * columns);
    return scratch.data();
  }
};

/// How many rows or columns of the result a thread computes at once. The pieces depend on the operands only,
/// and so does the result.
constexpr std::int64_t kOfAPiece = 128;

}  // namespace

void ragged_dot(const Ragged& r, bool transposed, float* result, const ForEach& for_each) {
  const Library& library = *find_library();
  const Order order(r, kOfAPiece);
  for_each(static_cast<std::int64_t>(order.runs.size()), [&](std::int64_t i) {
    const Run& run = order.runs[static_cast<std::size_t>(i)];
    std::vector<float> rows, products;
    const bool in_place = order.sorted.empty();
    float* out = result + run.first * r.n;
    if (!in_place) products.resize(static_cast<std::size_t>(run.rows * r.n)), out = products.data();
    if (run.group < 0) {
      std::fill_n(out, run.rows * r.n, 0.0f);
    } else {
      const OneThread one(library);
      sgemm(library, 'N', transposed ? 'T' : 'N', run.rows, r.n, r.k, order.rows_of(run, r.x, r.k, rows), r.k,
            r.y + run.group * r.k * r.n, transposed ? r.k : r.n, 0, out, r.n);
    }
    for (std::int64_t row = 0; row < run.rows && !in_place; ++row)
      std::copy_n(out + row * r.n, r.n,
                  result + order.sorted[static_cast<std::size_t>(run.first + row)] * r.n);
  });
}

void ragged_contracting_dot(const Ragged& r, float* result, const ForEach& for_each) {
  const Library& library = *find_library();
  const Order order(r, r.rows);
  std::vector<std::vector<Run>> runs(static_cast<std::size_t>(r.groups));
  for (const Run& run : order.runs)
    if (run.group >= 0) runs[static_cast<std::size_t>(run.group)].push_back(run);
  // In pieces of the group's rows of the result, unless each of them would copy the group's rows together.
  const std::int64_t piece = order.sorted.empty() ? kOfAPiece : r.k, of_a_group = (r.k + piece - 1) / piece;
  for_each(r.groups * of_a_group, [&](std::int64_t i) {
    const std::int64_t group = i / of_a_group, column = i % of_a_group * piece,
                       columns = std::min(piece, r.k - column);
    float* out = result + (group * r.k + column) * r.n;
    const std::vector<Run>& mine = runs[static_cast<std::size_t>(group)];
    if (mine.empty()) std::fill_n(out, columns * r.n, 0.0f);
    const OneThread one(library);
    std::vector<float> x, y;
    for (std::size_t run = 0; run < mine.size(); ++run)
      sgemm(library, 'T', 'N', columns, r.n, mine[run].rows, order.rows_of(mine[run], r.x, r.k, x) + column,
            r.k, order.rows_of(mine[run], r.y, r.n, y), r.n, run == 0 ? 0.0f : 1.0f, out, r.n);
  });
}

}  // namespace lockstep::onednn
