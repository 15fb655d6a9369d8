// SPDX-License-Identifier: Apache-2.0
// A loader whose batches are global arrays: each process reads only its own rows, and no process has a whole
// batch.
//
//   $ lockstep run -n 2 --devices-per-process 2 -- build/release/examples/distributed_data_loader
//   [0] batch 0: f32[8,2] of which process 0 read 4 rows, sum 120
//   [0] batch 1: f32[8,2] of which process 0 read 4 rows, sum 376
//   [1] batch 0: f32[8,2] of which process 1 read 4 rows, sum 120
//   [1] batch 1: f32[8,2] of which process 1 read 4 rows, sum 376

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdio>
#include <optional>

namespace ls = lockstep;
using ls::Array, ls::P;

/// Iterates over a data set in batches that are split over all devices of a mesh.
class DistributedDataLoader {
 public:
  /// `read_row(i, row)` appends the elements of row i.
  using ReadRow = std::function<void(std::int64_t, std::vector<float>&)>;

  DistributedDataLoader(const ls::Mesh& mesh, std::int64_t rows, std::int64_t columns,
                        std::int64_t batch_size, ReadRow read_row)
      : sharding_(mesh, P("data")),
        rows_(rows),
        shape_{batch_size, columns},
        read_row_(std::move(read_row)) {}

  /// The next global batch; nullopt at the end. All processes must call it.
  std::optional<Array> next() {
    if (first_ + shape_[0] > rows_) return std::nullopt;
    Array batch =
        ls::make_array_from_callback<float>(shape_, sharding_, [&](const std::vector<ls::IndexRange>& index) {
          std::vector<float> part;
          for (std::int64_t i = index[0].start; i < index[0].limit; ++i) read_row_(first_ + i, part);
          return part;
        });
    first_ += shape_[0];
    return batch;
  }

 private:
  ls::NamedSharding sharding_;
  std::int64_t rows_, first_ = 0;
  ls::Shape shape_;
  ReadRow read_row_;
};

int main() {
  ls::initialize();
  ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});
  const std::int64_t batch_size = std::max(8, ls::device_count());
  std::int64_t rows_read = 0;
  DistributedDataLoader loader(mesh, 2 * batch_size, 2, batch_size,
                               [&](std::int64_t i, std::vector<float>& row) {
                                 row.push_back(static_cast<float>(2 * i));
                                 row.push_back(static_cast<float>(2 * i + 1));
                                 ++rows_read;
                               });
  auto total = ls::jit([](const Array& x) { return ls::sum(x); });
  for (int i = 0; auto batch = loader.next(); ++i) {
    if (ls::process_count() > 1 && batch->is_fully_addressable())
      throw ls::Error("a process has all of the batch");
    std::printf("batch %d: %s of which process %d read %d rows, sum %.0f\n", i,
                ls::to_string(batch->aval()).c_str(), ls::process_index(), static_cast<int>(rows_read),
                total(*batch).item<float>());
    rows_read = 0;
  }
}
