// SPDX-License-Identifier: Apache-2.0
// tf.train.Example, by hand: four messages of protobuf's wire format.
#include <cstring>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/data/tfrecord.h"

namespace lockstep::data {
namespace {

/// Reads one message, field by field.
class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}

  /// Goes to the next field; false at the end.
  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t key = varint();
    number_ = key >> 3;
    kind_ = static_cast<int>(key & 7);
    if (number_ == 0 || number_ >> 29 != 0) wrong("a field has no valid number");
    switch (kind_) {
      case 0:
        value_ = varint();
        return true;
      case 1:
        bytes_ = take(8);
        return true;
      case 2:
        bytes_ = take(varint());
        return true;
      case 5:
        bytes_ = take(4);
        return true;
      default:
        wrong("a field is of an unknown kind");
    }
  }

  std::uint64_t number() const { return number_; }
  int kind() const { return kind_; }
  std::uint64_t value() const { return value_; }

  /// For a field of kind 2 (length and bytes). Throws for other kinds.
  std::string_view bytes() const {
    if (kind_ != 2) wrong("a field is not of the expected kind");
    return bytes_;
  }
  std::string_view fixed() const { return bytes_; }

  bool done() const { return rest_.empty(); }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    wrong("a number does not end");
  }

  [[noreturn]] static void wrong(const char* what) {
    fail<DataError>("this is not a tf.train.Example: {}", what);
  }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) wrong("a field is cut off");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_, bytes_;
  std::uint64_t number_ = 0, value_ = 0;
  int kind_ = 0;
};

void add_bytes(const std::string& name, std::string_view list, Record* record) {
  std::vector<std::string_view> values;
  for (Message message(list); message.next();) {
    if (message.number() == 1) values.push_back(message.bytes());
  }
  if (values.size() == 1) {
    record->insert_or_assign(name, Field::text(values[0]));
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    record->insert_or_assign(fmt::format("{}/{}", name, i), Field::text(values[i]));
}

/// Packed or one by one.
void add_floats(const std::string& name, std::string_view list, Record* record) {
  std::vector<float> values;
  auto add = [&](std::string_view bytes) {
    if (bytes.size() % 4 != 0) Message::wrong("a list of floats is cut off");
    const std::size_t before = values.size();
    values.resize(before + bytes.size() / 4);
    if (!bytes.empty()) std::memcpy(values.data() + before, bytes.data(), bytes.size());
  };
  for (Message message(list); message.next();) {
    if (message.number() != 1) continue;
    if (message.kind() != 2 && message.kind() != 5) Message::wrong("a float is not of the expected kind");
    add(message.fixed());
  }
  record->insert_or_assign(name, Field::of(values));
}

void add_integers(const std::string& name, std::string_view list, Record* record) {
  std::vector<std::int64_t> values;
  for (Message message(list); message.next();) {
    if (message.number() != 1) continue;
    if (message.kind() == 0) {
      values.push_back(static_cast<std::int64_t>(message.value()));
    } else {
      for (Message packed(message.bytes()); !packed.done();)
        values.push_back(static_cast<std::int64_t>(packed.varint()));
    }
  }
  record->insert_or_assign(name, Field::of(values));
}

/// An entry of the map: the feature's name, and the list that it is.
void add_entry(std::string_view entry, Record* record) {
  std::string name;
  std::string_view feature;
  for (Message message(entry); message.next();) {
    if (message.number() == 1) name = message.bytes();
    if (message.number() == 2) feature = message.bytes();
  }
  for (Message message(feature); message.next();) {
    if (message.number() == 1) add_bytes(name, message.bytes(), record);
    if (message.number() == 2) add_floats(name, message.bytes(), record);
    if (message.number() == 3) add_integers(name, message.bytes(), record);
  }
}

}  // namespace

Record fields_of_example(std::string_view serialized) {
  Record record;
  for (Message example(serialized); example.next();) {
    if (example.number() != 1) continue;
    for (Message features(example.bytes()); features.next();) {
      if (features.number() == 1) add_entry(features.bytes(), &record);
    }
  }
  return record;
}

}  // namespace lockstep::data
