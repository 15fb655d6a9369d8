// SPDX-License-Identifier: Apache-2.0
// filter and pack: sources of which all records are read once, to make an index.
#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/progress.h"
#include "lockstep/data/source.h"
#include "lockstep/data/stored_numbers.h"

namespace lockstep::data {
namespace {

using internal::check_record;
using internal::StoredNumbers;

/// Calls `look` for each record, on several threads at a time, and `take` with the results, in order.
void look_at_all(const Source& source, int threads, bool progress, const char* what,
                 const std::function<std::uint64_t(const Record&)>& look,
                 const std::function<void(std::uint64_t i, std::uint64_t found)>& take) {
  constexpr std::uint64_t kEach = 1024;
  threads = std::max(threads, 1);
  const std::uint64_t size = source.size();
  ProgressBar bar(what, static_cast<std::int64_t>(size), progress && size >= 1000000);
  std::vector<std::uint64_t> found(kEach * static_cast<std::uint64_t>(threads));
  for (std::uint64_t begin = 0; begin < size; begin += found.size()) {
    std::vector<std::exception_ptr> errors(static_cast<std::size_t>(threads));
    {
      std::vector<std::jthread> running;
      for (std::size_t t = 0; t < errors.size(); ++t) {
        running.emplace_back([&, t] {
          try {
            for (std::uint64_t i = t * kEach; i < (t + 1) * kEach && begin + i < size; ++i)
              found[i] = look(source.read(begin + i));
          } catch (...) {
            errors[t] = std::current_exception();
          }
        });
      }
    }
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    for (std::uint64_t i = 0; i < found.size() && begin + i < size; ++i) take(begin + i, found[i]);
    bar.update(static_cast<std::int64_t>(std::min(size, begin + found.size())));
  }
}

[[noreturn]] void fail_outdated(std::string_view operation, std::string_view what,
                                const StoredNumbers& index) {
  fail<DataError>(
      "[{}] {}: the data has changed since the index was made, or a function before {} has changed under the "
      "same name; remove {}",
      operation, what, operation, index.url());
}

/// Tells a changed record from the one that was kept; never 0.
std::uint64_t sum_of(const Record& record) { return fingerprint_of(record) | 1; }

class Filtered final : public Source {
 public:
  Filtered(SourcePtr source, const std::string& name, const std::function<bool(const Record&)>& keep,
           const IndexOptions& index, int threads)
      : source_(std::move(source)),
        fingerprint_(combine(lockstep::fingerprint("filter " + name), source_->fingerprint())),
        kept_(internal::stored_numbers(
            "filter", "", "filter", combine(fingerprint_, lockstep::fingerprint("with sums")), index,
            [&](const internal::Append& append) {
              look_at_all(
                  *source_, threads, index.progress, "filter",
                  [&](const Record& record) { return keep(record) ? sum_of(record) : 0; },
                  [&](std::uint64_t i, std::uint64_t sum) {
                    if (sum == 0) return;
                    append(i);
                    append(sum);
                  });
            })) {}
  std::uint64_t size() const override { return kept_->size() / 2; }
  Record read(std::uint64_t i) const override {
    check_record("filter", "what was kept", i, size());
    const auto [number, sum] = kept_->two(2 * i);
    Record record = source_->read(number);
    if (sum_of(record) != sum)
      fail_outdated("filter", source_->place(number) + " is not the record that was kept", *kept_);
    return record;
  }
  std::string place(std::uint64_t i) const override {
    try {
      return source_->place((*kept_)[2 * i]);
    } catch (const DataError&) {
      return fmt::format("record {} of those kept", i);
    }
  }
  Fingerprint fingerprint() const override { return combine(fingerprint_, size()); }

 private:
  SourcePtr source_;
  Fingerprint fingerprint_;
  std::shared_ptr<const StoredNumbers> kept_;
};

/// A field with one dimension, whose values are packed.
const Field& packed_field(const Record& record, const std::string& name) {
  const Field& found = field(record, name);
  if (found.shape.size() != 1) {
    fail<DataError>("[pack] the field '{}' has {} dimensions, expected one", name, found.shape.size());
  }
  return found;
}

class Packed final : public Source {
 public:
  Packed(SourcePtr source, std::string name, const WindowOptions& window, const IndexOptions& index,
         int threads)
      : source_(std::move(source)),
        name_(std::move(name)),
        length_(window.length),
        stride_(window.stride == 0 ? window.length : window.stride),
        segments_(window.segments),
        lengths_fingerprint_(combine(lockstep::fingerprint("pack " + name_), source_->fingerprint())) {
    if (length_ == 0 || length_ >= std::uint64_t{1} << 31)
      fail<DataError>("[pack] expected windows of 1 to 2^31 - 1 values, got {}", length_);
    ends_ = internal::stored_numbers(
        "pack", "", "pack", lengths_fingerprint_, index, [&](const internal::Append& append) {
          std::uint64_t end = 0;
          look_at_all(
              *source_, threads, index.progress, "pack",
              [&](const Record& record) {
                return static_cast<std::uint64_t>(packed_field(record, name_).shape[0]);
              },
              [&](std::uint64_t, std::uint64_t length) { append(end += length); });
        });
    if (ends_->size() != source_->size()) {
      fail_outdated(
          "pack", fmt::format("the index has {} records, and the source {}", ends_->size(), source_->size()),
          *ends_);
    }
    const std::uint64_t values = ends_->size() == 0 ? 0 : (*ends_)[ends_->size() - 1];
    size_ = values < length_ ? 0 : (values - length_) / stride_ + 1;
  }

  std::uint64_t size() const override { return size_; }

  Record read(std::uint64_t i) const override {
    check_record("pack", name_, i, size_);
    const std::uint64_t begin = i * stride_, end = begin + length_;
    Field values{DType::kU8, {static_cast<std::int64_t>(length_)}, {}};
    std::vector<std::int32_t> segments;
    std::uint64_t record = ends_->count_up_to(begin), at = begin;
    std::uint64_t record_begin = record == 0 ? 0 : (*ends_)[record - 1];
    for (std::int32_t segment = 0; at < end; ++record) {
      check_record("pack", "the source", record, source_->size());
      const Record found = source_->read(record);
      const Field& field = packed_field(found, name_);
      const std::uint64_t record_end = record_begin + static_cast<std::uint64_t>(field.shape[0]);
      if (record_end != (*ends_)[record]) {
        fail_outdated("pack",
                      fmt::format("{} has {} values, and its index says {}", source_->place(record),
                                  field.shape[0], (*ends_)[record] - record_begin),
                      *ends_);
      }
      if (record_end <= at) continue;  // Of no values.
      const std::uint64_t until = std::min(end, record_end);
      const std::size_t element = size_of(field.dtype);
      if (values.bytes.empty()) {
        values.dtype = field.dtype;
        values.bytes.reserve(length_ * element);
      } else if (values.dtype != field.dtype) {
        fail<DataError>("[pack] {} has {} values, but those before have {}", source_->place(record),
                        name(field.dtype), name(values.dtype));
      }
      const auto first = field.bytes.begin() + static_cast<std::ptrdiff_t>((at - record_begin) * element);
      values.bytes.insert(values.bytes.end(), first,
                          first + static_cast<std::ptrdiff_t>((until - at) * element));
      segments.insert(segments.end(), until - at, segment++);
      at = until;
      record_begin = record_end;
    }
    Record window{{name_, std::move(values)}};
    if (segments_) window.emplace("segments", Field::of(segments));
    return window;
  }

  std::string place(std::uint64_t i) const override {
    std::string from;
    try {
      from = ", which begins in " + source_->place(ends_->count_up_to(i * stride_));
    } catch (const DataError&) {
    }
    return fmt::format("window {} of '{}'{}", i, name_, from);
  }
  Fingerprint fingerprint() const override {
    return combine(lockstep::fingerprint(fmt::format("{} {} {}", length_, stride_, segments_)),
                   lengths_fingerprint_);
  }

 private:
  SourcePtr source_;
  std::string name_;
  std::uint64_t length_, stride_;
  bool segments_;
  Fingerprint lengths_fingerprint_;
  std::shared_ptr<const StoredNumbers> ends_;
  std::uint64_t size_ = 0;
};

}  // namespace

SourcePtr filter(SourcePtr source, std::string name, std::function<bool(const Record&)> keep,
                 IndexOptions index, int threads) {
  return std::make_shared<Filtered>(std::move(source), name, keep, index, threads);
}

SourcePtr pack(SourcePtr source, std::string field, WindowOptions window, IndexOptions index, int threads) {
  return std::make_shared<Packed>(std::move(source), std::move(field), window, index, threads);
}

}  // namespace lockstep::data
