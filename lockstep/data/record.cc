// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/record.h"

#include "lockstep/base/fail.h"

namespace lockstep::data {

Field Field::text(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {DType::kU8, {std::ssize(text)}, {bytes.begin(), bytes.end()}};
}

std::string_view Field::text() const {
  check_dtype(DType::kU8);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void Field::check_dtype(DType asked) const {
  if (asked == dtype || (asked == DType::kU8 && dtype == DType::kBool)) return;
  fail<DTypeError>("[Field] the values are {}, and cannot be read as {}", name(dtype), name(asked));
}

const Field& field(const Record& record, std::string_view name) {
  auto found = record.find(name);
  if (found == record.end()) fail<DataError>("[field] there is no field '{}' in {}", name, to_string(record));
  return found->second;
}

std::string to_string(const Record& record) {
  std::string text = "{";
  for (const auto& [name, field] : record) {
    if (text.size() > 1) text += ", ";
    text += name + ": " + to_string(Aval{field.dtype, field.shape, false, {}});
  }
  return text + "}";
}

Fingerprint fingerprint_of(const Record& record) {
  Fingerprint all = fingerprint(to_string(record));
  for (const auto& [name, field] : record) {
    all = combine(all, fingerprint({reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()}));
  }
  return all;
}

}  // namespace lockstep::data
