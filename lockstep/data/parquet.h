// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/source.h"

namespace lockstep::data {

struct ParquetOptions {
  /// The columns to read; for structs "struct.member". Empty: all.
  std::vector<std::string> columns;

  /// Row groups are decoded as a whole. The most recently used ones stay in memory up to this number of
  /// bytes, but at least one. In shuffled order each record decodes a group unless all groups fit.
  std::uint64_t cache_bytes = std::uint64_t{1} << 30;
};

/// The rows of a Parquet file. A record has a field for each column: numbers, bools, dates and times (as the
/// integers that the file has) are of rank 0; strings and binaries u8[n]; lists of numbers [n]; members of
/// structs are fields "struct.member". If a row has no value, the field is missing. Other types, such as
/// decimals, dictionaries and lists of lists, are not supported; the error names the column.
///
/// Needs the plugin that `scripts/setup --parquet` and a build make; LOCKSTEP_PARQUET_PLUGIN names a plugin
/// in another place. Throws DataError if there is no plugin, and for damaged files.
SourcePtr parquet(const std::string& url, ParquetOptions options = {});

}  // namespace lockstep::data
