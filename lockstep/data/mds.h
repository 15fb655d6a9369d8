// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/data/source.h"

namespace lockstep::data {

/// MosaicML's streaming format: a folder (or prefix of an object store) with an index.json and shards. The
/// columns are fields:
///   bytes, str, jpeg, png, pil, pkl, json, str_int, str_float, str_decimal    u8[n], as they were stored
///   int, int8 to int64, uint8 to uint64, float16 to float64                   a scalar
///   ndarray, with or without dtype and shape                                  an array
/// A shard is opened when one of its records is first read, and stays open. Shards that exist only in
/// compressed form are a DataError: write them without compression, or keep both.
SourcePtr mds(const std::string& folder);

}  // namespace lockstep::data
