// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "lockstep/data/source.h"

namespace lockstep::data {

/// The records of a TFRecord file, {"record": u8[n]}; not of a compressed one. Makes an index, for which the
/// lengths are read and their checksums checked; the checksum of a record is checked when it is read.
SourcePtr tfrecord(const std::string& url, IndexOptions index = {});

/// The same, each record parsed by `fields_of_example`.
SourcePtr tfrecord_examples(const std::string& url, IndexOptions index = {});

/// The features of a serialized tf.train.Example: floats as f32[n], integers as i64[n], a single bytes value
/// as u8[n], several as fields NAME/0, NAME/1 and so on. Throws DataError if it is damaged.
Record fields_of_example(std::string_view serialized);

}  // namespace lockstep::data
