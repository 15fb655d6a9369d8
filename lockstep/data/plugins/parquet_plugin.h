#pragma once

#include <cstdint>

#include "lockstep/base/dtype.h"

/// What data::parquet and its plugin say to each other. Only plain types pass, and who allocates also frees,
/// so that the plugin may have libraries of its own. Functions that fail give null and write why into
/// `error`, with a 0 at its end.
extern "C" {

/// Of these structs; another one is refused.
#define LOCKSTEP_PARQUET_VERSION 1

/// A file to read. `read` fills `into`; it gives false and writes `error` where it cannot.
struct LockstepParquetInput {
  void* context;
  std::uint64_t size;
  bool (*read)(void* context, std::uint64_t offset, std::uint64_t bytes, void* into, char* error,
               std::uint64_t error_bytes);
};

/// A column of a row group.
struct LockstepParquetColumn {
  const char* name;
  lockstep::DType dtype;
  std::int64_t width;           ///< elements of each row; -1: a row is one number, of rank 0
  const std::int64_t* offsets;  ///< where not null, row i has elements offsets[i] to offsets[i + 1] instead
  const std::uint8_t* valid;    ///< 0 for rows without a value; null where all have one
  const void* values;
};

struct LockstepParquetGroup {
  std::uint64_t rows, columns, bytes;
  const LockstepParquetColumn* column;
};

struct LockstepParquetPlugin {
  std::uint64_t version;

  /// Reads what the file says of itself. `columns`: their names, those of structs as "struct.member"; none:
  /// all. The input must live as long as the file.
  void* (*open)(const LockstepParquetInput* input, const char* const* columns, std::uint64_t count,
                char* error, std::uint64_t error_bytes);
  void (*close)(void* file);

  std::uint64_t (*groups)(const void* file);
  std::uint64_t (*rows)(const void* file, std::uint64_t group);

  /// The row group, decoded. May be called by several threads at a time.
  const LockstepParquetGroup* (*read)(const void* file, std::uint64_t group, char* error,
                                      std::uint64_t error_bytes);
  void (*release)(const LockstepParquetGroup* group);
};

/// The one function that the plugin exports.
using LockstepParquetEntry = const LockstepParquetPlugin* (*)();
#define LOCKSTEP_PARQUET_ENTRY "lockstep_parquet_plugin"
}
