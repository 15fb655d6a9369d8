#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/source.h"

namespace lockstep::data {

struct ParquetOptions {
  /// Which columns; of structs "struct.member". Empty: all.
  std::vector<std::string> columns;

  /// Row groups are decoded as a whole. So many bytes of them stay in memory, those that were used last, and
  /// one in any case. In shuffled order each record decodes a group unless all of them find room here.
  std::uint64_t cache_bytes = std::uint64_t{1} << 30;
};

/// The rows of a Parquet file. A record has a field for each column: numbers, bools, dates and times (as the
/// integers that the file has) are of rank 0; texts and binaries u8[n]; lists of numbers [n]; members of
/// structs fields of their own, "struct.member". Where a row has no value the field is missing. Other types,
/// such as decimals, dictionaries and lists of lists, are errors that name the column.
///
/// Needs the plugin that `scripts/setup --parquet` and a build make; LOCKSTEP_PARQUET_PLUGIN names one that
/// lies elsewhere. Throws DataError where there is none, and for damaged files.
SourcePtr parquet(const std::string& url, ParquetOptions options = {});

}  // namespace lockstep::data
