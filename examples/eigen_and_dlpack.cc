// SPDX-License-Identifier: Apache-2.0
// Eigen's matrices and DLPack's tensors as arrays, and arrays as them.
//
//   $ lockstep run -n 1 -- build/release/examples/eigen_and_dlpack
//   [0] x is made from a column-major matrix, by one copy: x[0, 2] = 3
//   [0] y is made from a block of the matrix: y[1, 0] = 5
//   [0] Eigen sums the rows of x in place: 6 and 15
//   [0] Eigen fills memory, and an array uses it in place
//   [0] HostCopy::kMustNotCopy refuses a column-major matrix: the elements would be copied
//   [0] a tensor of DLPack becomes an array in the same memory

#include <lockstep/array/dlpack.h>
#include <lockstep/lockstep.h>

#include <Eigen/Core>
#include <cstdio>
#include <cstring>
#include <memory>

namespace ls = lockstep;
using ls::Array, ls::HostCopy, ls::HostMemory, ls::HostView;
using RowMajorMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

int main() {
  ls::initialize();
  auto matrix = std::make_shared<Eigen::MatrixXf>(2, 3);
  *matrix << 1, 2, 3, 4, 5, 6;

  const Array x = ls::array(HostView::column_major(matrix->data(), {matrix->rows(), matrix->cols()}));
  std::printf("x is made from a column-major matrix, by one copy: x[0, 2] = %g\n", x[{0, 2}].item<double>());

  const auto block = matrix->block(0, 1, 2, 2);
  const Array y = ls::array(HostView(block.data(), {2, 2}, {block.rowStride(), block.colStride()}));
  std::printf("y is made from a block of the matrix: y[1, 0] = %g\n", y[{1, 0}].item<double>());

  const ls::ArrayView<float> view = x.view<float>();  // keeps the elements while Eigen reads them
  const Eigen::Map<const RowMajorMatrix> map(view.data(), view.shape()[0], view.shape()[1]);
  std::printf("Eigen sums the rows of x in place: %g and %g\n", map.row(0).sum(), map.row(1).sum());

  HostMemory memory = HostMemory::allocate(ls::float32, {64, 64});
  Eigen::Map<RowMajorMatrix>(memory.elements<float>().data(), 64, 64).setIdentity();
  const Array identity = ls::array(memory);
  std::printf("Eigen fills memory, and an array %s\n",
              memory.is_used_by(identity) ? "uses it in place" : "copies it");

  try {
    ls::array(HostMemory(HostView::column_major(matrix->data(), {2, 3}), matrix, HostCopy::kMustNotCopy));
  } catch (const ls::Error& error) {
    const bool says_so = std::strstr(error.what(), "the elements would be copied") != nullptr;
    std::printf("HostCopy::kMustNotCopy refuses a column-major matrix: %s\n",
                says_so ? "the elements would be copied" : error.what());
  }

  // release() gives the tensor away: here to us, elsewhere to a Python capsule or another library.
  const Array same = ls::from_dlpack(ls::to_dlpack(identity).release(), HostCopy::kMustNotCopy);
  std::printf("a tensor of DLPack becomes an array in %s memory\n",
              same.span<float>().data() == identity.span<float>().data() ? "the same" : "other");
}
