// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/base/dtype.h"
#include "lockstep/data/file.h"
#include "lockstep/program/aval.h"

namespace lockstep::data::internal {

/// The header of a .npy file.
struct NpyHeader {
  DType dtype = DType::kF32;
  Shape shape;
  bool fortran_order = false;
  std::uint64_t bytes = 0;  ///< the size of the header, after which the numbers begin
};

/// Throws DataError if the header is damaged, if the numbers are big-endian or have a dtype that Lockstep
/// does not have, or if they do not fill the file.
NpyHeader read_npy_header(const File& file);

}  // namespace lockstep::data::internal
