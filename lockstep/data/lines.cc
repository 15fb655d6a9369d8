// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/lines.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/base/json_depth.h"
#include "lockstep/base/progress.h"
#include "lockstep/data/stored_numbers.h"

namespace lockstep::data {
namespace {

using internal::File;
using nlohmann::json;

/// Gives the place of each line's beginning, and at last the file's size.
void find_lines(const File& file, bool blank_ones, bool progress, const internal::Append& append) {
  internal::Scan scan(file);
  ProgressBar bar("index " + file.url(), static_cast<std::int64_t>(file.size()),
                  progress && file.size() >= std::uint64_t{1} << 30, ProgressBar::Unit::kBytes);
  std::uint64_t line = 0;  // Where the current one begins.
  bool undecided = true;   // Whether it is one that counts.
  while (true) {
    const std::uint64_t at = scan.offset();
    const std::string_view block = scan.next(std::size_t{8} << 20);
    if (block.empty()) break;
    for (std::size_t i = 0; i < block.size();) {
      if (undecided) {
        if (!blank_ones) i = block.find_first_not_of(" \t\r", i);
        if (i == block.npos) break;
        if (blank_ones || block[i] != '\n') append(line);
        undecided = false;
      }
      const std::size_t end = block.find('\n', i);
      if (end == block.npos) break;
      i = end + 1;
      line = at + i;
      undecided = true;
    }
    bar.update(static_cast<std::int64_t>(scan.offset()));
  }
  append(file.size());
}

class Lines : public Source {
 public:
  Lines(const char* operation, const std::string& url, bool blank_ones, const IndexOptions& index)
      : file_(operation, url),
        blank_ones_(blank_ones),
        fingerprint_(combine(lockstep::fingerprint(operation), file_.fingerprint())),
        begins_(internal::stored_numbers(
            operation, file_.url(), operation, fingerprint_, index,
            [&](const internal::Append& append) { find_lines(file_, blank_ones, index.progress, append); })) {
  }
  std::uint64_t size() const override { return std::max<std::uint64_t>(begins_->size(), 1) - 1; }
  Record read(std::uint64_t i) const override { return {{"text", Field::text(line(i).second)}}; }
  std::string place(std::uint64_t i) const override { return fmt::format("{} record {}", file_.url(), i); }
  Fingerprint fingerprint() const override { return combine(fingerprint_, size()); }

 protected:
  /// The position of the line, and its text.
  std::pair<std::uint64_t, std::string> line(std::uint64_t i) const {
    internal::check_record(file_.operation(), file_.url(), i, size());
    const auto [begin, end] = begins_->two(i);
    if (end < begin || end > file_.size()) {
      begins_->fail_outdated(file_, begin,
                             fmt::format("record {} is said to end at byte {} of {}", i, end, file_.size()));
    }
    const std::uint64_t before = begin == 0 ? 0 : 1;  // The line before ends there.
    std::string text = file_.text(begin - before, end - begin + before);
    const bool begins = before == 0 || text.front() == '\n';
    text.erase(0, before);
    const std::size_t line_end = std::min(text.find('\n'), text.size());
    // Blank lines that are no records may follow.
    const bool ends = end == file_.size() || text.ends_with('\n');
    const bool one = text.find_first_not_of(blank_ones_ ? "" : " \t\r\n", line_end + 1) == text.npos;
    if (!begins || !ends || !one)
      begins_->fail_outdated(file_, begin, fmt::format("record {} is not one whole line", i));
    text.resize(line_end);
    if (text.ends_with('\r')) text.pop_back();
    return {begin, std::move(text)};
  }

  File file_;
  const bool blank_ones_;
  Fingerprint fingerprint_;
  std::shared_ptr<const internal::StoredNumbers> begins_;
};

class Jsonl final : public Lines {
 public:
  Jsonl(const std::string& url, const IndexOptions& index) : Lines("jsonl", url, false, index) {}
  Record read(std::uint64_t i) const override {
    const auto [begin, text] = line(i);
    try {
      return fields_of_json(text);
    } catch (const DataError& error) {
      file_.damaged(begin, fmt::format("record {}: {}", i, error.what()));
    }
  }
};

/// The shape of nested arrays of numbers; false if they are something else, or have different lengths.
bool shape_of(const json& value, Shape* shape, bool* whole) {
  if (value.is_number()) {
    *whole = *whole && (value.is_number_integer() &&
                        (!value.is_number_unsigned() || value.get<std::uint64_t>() >> 63 == 0));
    return true;
  }
  if (!value.is_array() || shape->size() >= 16) return false;
  const std::size_t rank = shape->size();
  Shape inner;
  bool first = true;
  for (const json& element : value) {
    Shape one;
    if (!shape_of(element, &one, whole) || (!first && one != inner)) return false;
    inner = std::move(one);
    first = false;
  }
  shape->resize(rank);
  shape->push_back(static_cast<std::int64_t>(value.size()));
  shape->insert(shape->end(), inner.begin(), inner.end());
  return shape->size() <= 16;
}

template <class T>
void append_numbers(const json& value, std::vector<T>* numbers) {
  if (value.is_number()) return numbers->push_back(value.get<T>());
  for (const json& element : value) append_numbers(element, numbers);
}

Field field_of(const json& value) {
  if (value.is_string()) return Field::text(value.get_ref<const std::string&>());
  if (value.is_boolean()) {
    const std::byte bit{value.get<bool>() ? std::uint8_t{1} : std::uint8_t{0}};
    return {DType::kBool, {}, {bit}};
  }
  Shape shape;
  bool whole = true;
  if (!shape_of(value, &shape, &whole)) return Field::text(json_text(value));
  if (whole) {
    std::vector<std::int64_t> numbers;
    append_numbers(value, &numbers);
    return Field::of(std::span<const std::int64_t>(numbers), shape);
  }
  std::vector<double> numbers;
  append_numbers(value, &numbers);
  return Field::of(std::span<const double>(numbers), shape);
}

}  // namespace

Record fields_of_json(std::string_view text) {
  constexpr std::size_t kDeepest = 200;
  if (json_depth(text) > kDeepest) fail<DataError>("the JSON is nested deeper than {} brackets", kDeepest);
  json object;
  try {
    object = parse_json(text);
  } catch (const json::exception& error) {
    fail<DataError>("this is not JSON: {}", error.what());
  }
  if (!object.is_object()) fail<DataError>("expected a JSON object, got {}", object.type_name());
  Record record;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_null()) record.emplace(name, field_of(value));
  }
  return record;
}

SourcePtr lines(const std::string& url, IndexOptions index) {
  return std::make_shared<Lines>("lines", url, true, index);
}

SourcePtr jsonl(const std::string& url, IndexOptions index) { return std::make_shared<Jsonl>(url, index); }

}  // namespace lockstep::data
