// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "lockstep/base/fail.h"
#include "lockstep/data/loader.h"

namespace lockstep::data {

std::array<std::byte, 64> LoaderState::to_bytes() const {
  std::array<std::byte, 64> bytes;
  std::memcpy(bytes.data(), this, sizeof *this);
  return bytes;
}

LoaderState LoaderState::from_bytes(std::span<const std::byte> bytes) {
  LoaderState state;
  if (bytes.size() != sizeof state)
    fail<DataError>("[LoaderState] expected {} bytes, got {}", sizeof state, bytes.size());
  std::memcpy(&state, bytes.data(), sizeof state);
  if (state.format != 1 && state.format != LoaderState().format) {
    fail<DataError>("[LoaderState] expected format 1 or 2, got {}: it is of another version, or not a state",
                    state.format);
  }
  return state;
}

const Array& Batch::operator[](const std::string& name) const {
  auto found = fields.find(name);
  if (found != fields.end()) return found->second;
  std::string names;
  for (const auto& [each, array] : fields) names += (names.empty() ? "" : ", ") + each;
  fail<DataError>("[Batch] there is no field '{}'; there are {}", name, names);
}

}  // namespace lockstep::data
