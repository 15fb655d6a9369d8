#pragma once

#include <cstdint>

#include "lockstep/base/dtype.h"
#include "lockstep/data/file.h"
#include "lockstep/program/aval.h"

namespace lockstep::data::internal {

/// What stands before the numbers of a .npy file.
struct NpyHeader {
  DType dtype = DType::kF32;
  Shape shape;
  bool fortran_order = false;
  std::uint64_t bytes = 0;  ///< of the header: where the numbers begin
};

/// Throws DataError if the header is damaged, the numbers are big-endian or of a dtype that Lockstep has
/// not, or do not fill the file to its end.
NpyHeader read_npy_header(const File& file);

}  // namespace lockstep::data::internal
