// SPDX-License-Identifier: Apache-2.0
// A sparse system of equations, the Poisson equation on a square, by conjugate gradients: the rows of the
// matrix are split over the devices.
//
//   $ lockstep run -n 4 -- build/release/examples/laplacian
//   [0] 16384 equations, 81408 elements: each device stores 5 x 4096
//   [0] a product moves 1024 bytes in a permute
//   [0] a product moves 1024 bytes in a permute
//   [0] the residual is below 1e-4 of the right side

#include <lockstep/lockstep.h>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace ls = lockstep;
using ls::Array, ls::P;

constexpr int kSize = 128;

/// 4 u - the four neighbours of each cell, with zeros outside.
ls::sparse::BCSR laplacian() {
  std::vector<double> data;
  std::vector<std::int32_t> columns, row_pointers = {0};
  auto put = [&](double value, std::int32_t column) {
    data.push_back(value);
    columns.push_back(column);
  };
  for (int i = 0; i < kSize; ++i) {
    for (int j = 0; j < kSize; ++j) {
      const int cell = i * kSize + j;
      if (i > 0) put(-1, cell - kSize);
      if (j > 0) put(-1, cell - 1);
      put(4, cell);
      if (j + 1 < kSize) put(-1, cell + 1);
      if (i + 1 < kSize) put(-1, cell + kSize);
      row_pointers.push_back(static_cast<std::int32_t>(data.size()));
    }
  }
  return ls::sparse::BCSR::from_csr(data, columns, row_pointers, {kSize * kSize, kSize * kSize});
}

Array product(const ls::sparse::RowBlocks& a, const Array& x) { return matmul(a, x); }

int main() {
  ls::initialize();
  const ls::NamedSharding rows(ls::make_mesh({{"rows", ls::device_count()}}), P("rows"));
  const ls::sparse::BCSR whole = laplacian();
  const ls::sparse::RowBlocks a = ls::sparse::split_rows(whole, rows);
  const Array b = ls::ones({kSize * kSize}, ls::float64, rows);

  const auto solve = ls::jit([](const ls::sparse::RowBlocks& a, const Array& b) {
    return ls::cg([&a](const Array& x) { return matmul(a, x); }, b);
  });
  const Array x = solve(a, b);
  const double residual = (ls::linalg::norm(product(a, x) - b) / ls::linalg::norm(b)).item<double>();

  const auto moved = ls::jit(product).lower(a, b).communication();
  if (ls::process_index() != 0) return 0;
  std::printf("%d equations, %d elements: each device stores %d x %d\n", kSize * kSize,
              static_cast<int>(whole.nse()), static_cast<int>(a.data.shape()[0]),
              static_cast<int>(a.data.shape()[2]));
  for (const auto& line : moved)
    std::printf("a product moves %d bytes in a %s\n", static_cast<int>(line.bytes), line.kind.c_str());
  std::printf("the residual is %s 1e-4 of the right side\n", residual < 1e-4 ? "below" : "above");
}
