// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "lockstep/data/source.h"

namespace lockstep::data {

/// NumPy's .npy files side by side: record i has row i of each, under the name given here. Throws DataError
/// if a file is damaged, has a different number of rows than the others, is in Fortran order or big-endian,
/// or has a dtype that Lockstep does not support.
///   npy({{"image", "images.npy"}, {"label", "labels.npy"}})
SourcePtr npy(const std::map<std::string, std::string>& urls);

}  // namespace lockstep::data
