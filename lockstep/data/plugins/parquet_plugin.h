// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/base/dtype.h"

/// The interface between data::parquet and its plugin. It only passes plain types, and memory is freed by the
/// side that allocated it, so that the plugin may use other libraries. Functions that fail return null and
/// write the reason into `error`, terminated by 0.
extern "C" {

/// The version of these structs; others are rejected.
#define LOCKSTEP_PARQUET_VERSION 2

/// A file to read. `read` fills `into`; if it fails, it returns false and writes `error`.
struct LockstepParquetInput {
  void* context;
  std::uint64_t size;
  bool (*read)(void* context, std::uint64_t offset, std::uint64_t bytes, void* into, char* error,
               std::uint64_t error_bytes);
};

/// Some consecutive rows of a column. Arrow has several where a column of texts has more than 2 GiB.
struct LockstepParquetChunk {
  std::uint64_t rows;
  const std::int64_t* offsets;  ///< if not null, row i has elements offsets[i] to offsets[i + 1]
  const std::uint8_t* valid;    ///< 0 for rows without a value; null if all have one
  const void* values;
};

/// A column of a row group.
struct LockstepParquetColumn {
  const char* name;
  lockstep::DType dtype;
  std::int64_t width;  ///< elements of each row, if there are no offsets; -1: a row is one number, of rank 0
  std::uint64_t chunks;
  const LockstepParquetChunk* chunk;  ///< with all rows together
};

struct LockstepParquetGroup {
  std::uint64_t rows, columns;
  std::uint64_t bytes;  ///< of memory
  const LockstepParquetColumn* column;
};

struct LockstepParquetPlugin {
  std::uint64_t version;

  /// Reads the metadata of the file. `columns` are the names to read, for structs "struct.member"; none: all.
  /// The input must live as long as the file.
  void* (*open)(const LockstepParquetInput* input, const char* const* columns, std::uint64_t count,
                char* error, std::uint64_t error_bytes);
  void (*close)(void* file);

  std::uint64_t (*groups)(const void* file);
  std::uint64_t (*rows)(const void* file, std::uint64_t group);

  /// Decodes a row group. Thread-safe.
  const LockstepParquetGroup* (*read)(const void* file, std::uint64_t group, char* error,
                                      std::uint64_t error_bytes);
  void (*release)(const LockstepParquetGroup* group);
};

/// The one function that the plugin exports.
using LockstepParquetEntry = const LockstepParquetPlugin* (*)();
#define LOCKSTEP_PARQUET_ENTRY "lockstep_parquet_plugin"
}
