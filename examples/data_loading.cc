// SPDX-License-Identifier: Apache-2.0
// Four ways to load a batch over a mesh of model replicas and data parallelism. All produce the same global
// batch.
//
//   $ lockstep run -n 2 --devices-per-process 2 -- build/release/examples/data_loading
//   [0] mesh Mesh(model_replicas=2, data_parallelism=2)
//   [0] all data in every process:        process 0 read 8 rows
//   [0] a pipeline for each device:       process 0 read 8 rows
//   [0] a pipeline for each process:      process 0 read 8 rows
//   [0] load evenly, then reshard:        process 0 read 4 rows
//   [1] all data in every process:        process 1 read 8 rows
//   [1] a pipeline for each device:       process 1 read 8 rows
//   [1] a pipeline for each process:      process 1 read 8 rows
//   [1] load evenly, then reshard:        process 1 read 4 rows

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdio>

namespace ls = lockstep;
using ls::Array, ls::P;

constexpr std::int64_t kColumns = 3;

/// Eight, or one for each device.
std::int64_t num_rows() { return std::max(8, ls::device_count()); }

/// The data set: rows `first` to `limit`, as from a file.
std::vector<float> read_rows(std::int64_t first, std::int64_t limit) {
  std::vector<float> rows;
  for (std::int64_t i = first * kColumns; i < limit * kColumns; ++i) rows.push_back(static_cast<float>(i));
  return rows;
}

void report(const char* how, const Array& batch, std::int64_t rows_read) {
  std::vector<float> whole = ls::multihost::process_allgather(batch).to_host<float>();
  if (whole != read_rows(0, num_rows())) throw ls::Error("the batch is not what was read");
  std::printf("%-33s process %d read %d rows\n", how, ls::process_index(), static_cast<int>(rows_read));
}

int main() {
  ls::initialize();
  const std::int64_t rows = num_rows(), replicas = ls::device_count() > 1 ? 2 : 1;
  ls::Mesh mesh = ls::make_mesh({{"model_replicas", replicas}, {"data_parallelism", -1}});
  ls::NamedSharding batches(mesh, P("data_parallelism"));
  if (ls::process_index() == 0) std::printf("mesh %s\n", mesh.to_string().c_str());

  // 1. Every process reads everything; device_put keeps each device's part.
  Array batch = ls::device_put(ls::array(read_rows(0, rows), {rows, kColumns}), batches);
  report("all data in every process:", batch, rows);

  // 2. Every device has a pipeline of its own, which reads that device's rows.
  std::vector<Array> parts;
  std::int64_t read = 0;
  for (const auto& [device, index] : batches.devices_indices_map({rows, kColumns})) {
    if (device.process_index() != ls::process_index()) continue;
    read += index[0].limit - index[0].start;
    parts.push_back(ls::device_put(
        ls::array(read_rows(index[0].start, index[0].limit), batches.shard_shape({rows, kColumns})),
        ls::SingleDeviceSharding(device)));
  }
  report("a pipeline for each device:",
         ls::make_array_from_single_device_arrays({rows, kColumns}, batches, parts), read);

  // 3. Every process has a pipeline for the rows of all its devices; rows on several of them are read once.
  read = 0;
  batch = ls::make_array_from_callback<float>({rows, kColumns}, batches,
                                              [&](const std::vector<ls::IndexRange>& index) {
                                                read += index[0].limit - index[0].start;
                                                return read_rows(index[0].start, index[0].limit);
                                              });
  report("a pipeline for each process:", batch, read);

  // 4. Each process reads an equal part of the rows, split over all devices; then the array is resharded
  // to the final sharding.
  ls::Mesh line = ls::make_mesh({{"all", ls::device_count()}});
  read = rows / ls::process_count();
  batch = ls::make_array_from_process_local_data(
      ls::NamedSharding(line, P("all")),
      read_rows(ls::process_index() * read, (ls::process_index() + 1) * read), {read, kColumns});
  report("load evenly, then reshard:", ls::device_put(batch, batches), read);
}
