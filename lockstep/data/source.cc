// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/data/file.h"

namespace lockstep::data {
namespace {

using internal::check_record;

class InMemory final : public Source {
 public:
  explicit InMemory(std::vector<Record> records)
      : records_(std::move(records)), fingerprint_(lockstep::fingerprint("in_memory")) {
    for (const Record& record : records_) fingerprint_ = combine(fingerprint_, fingerprint_of(record));
  }
  std::uint64_t size() const override { return records_.size(); }
  Record read(std::uint64_t i) const override {
    check_record("in_memory", "the list", i, size());
    return records_[i];
  }
  std::string place(std::uint64_t i) const override { return fmt::format("record {} in memory", i); }
  Fingerprint fingerprint() const override { return fingerprint_; }

 private:
  std::vector<Record> records_;
  Fingerprint fingerprint_;
};

class FromFunction final : public Source {
 public:
  FromFunction(std::uint64_t size, std::string name, std::function<Record(std::uint64_t)> make)
      : size_(size), name_(std::move(name)), make_(std::move(make)) {}
  std::uint64_t size() const override { return size_; }
  Record read(std::uint64_t i) const override {
    check_record("from_function", name_, i, size_);
    return make_(i);
  }
  std::string place(std::uint64_t i) const override { return fmt::format("{} record {}", name_, i); }
  Fingerprint fingerprint() const override {
    return lockstep::fingerprint(fmt::format("from_function {} {}", size_, name_));
  }

 private:
  std::uint64_t size_;
  std::string name_;
  std::function<Record(std::uint64_t)> make_;
};

class Concatenated final : public Source {
 public:
  explicit Concatenated(std::vector<SourcePtr> sources) : sources_(std::move(sources)) {
    std::uint64_t end = 0;
    fingerprint_ = lockstep::fingerprint("concat");
    for (const SourcePtr& source : sources_) {
      if (source == nullptr) fail<DataError>("[concat] a source is null");
      if (__builtin_add_overflow(end, source->size(), &end))
        fail<DataError>("[concat] the sources have more than 2^64 records together");
      ends_.push_back(end);
      fingerprint_ = combine(fingerprint_, source->fingerprint());
    }
  }
  std::uint64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  Record read(std::uint64_t i) const override {
    check_record("concat", "the sources", i, size());
    const auto [source, record] = find(i);
    return source->read(record);
  }
  std::string place(std::uint64_t i) const override {
    if (i >= size()) return fmt::format("record {}", i);
    const auto [source, record] = find(i);
    return source->place(record);
  }
  Fingerprint fingerprint() const override { return fingerprint_; }

 private:
  std::pair<const Source*, std::uint64_t> find(std::uint64_t i) const {
    const auto at = static_cast<std::size_t>(std::ranges::upper_bound(ends_, i) - ends_.begin());
    return {sources_[at].get(), i - (at == 0 ? 0 : ends_[at - 1])};
  }

  std::vector<SourcePtr> sources_;
  std::vector<std::uint64_t> ends_;
  Fingerprint fingerprint_;
};

class Slice final : public Source {
 public:
  Slice(SourcePtr source, std::uint64_t begin, std::uint64_t end)
      : source_(std::move(source)), begin_(begin), end_(end) {}
  std::uint64_t size() const override { return end_ - begin_; }
  Record read(std::uint64_t i) const override {
    check_record("slice", "the slice", i, size());
    return source_->read(begin_ + i);
  }
  std::string place(std::uint64_t i) const override { return source_->place(begin_ + i); }
  Fingerprint fingerprint() const override {
    return combine(lockstep::fingerprint(fmt::format("slice {} {}", begin_, end_)), source_->fingerprint());
  }

 private:
  SourcePtr source_;
  std::uint64_t begin_, end_;
};

class Mapped final : public Source {
 public:
  Mapped(SourcePtr source, std::string name, std::function<Record(Record)> change)
      : source_(std::move(source)), name_(std::move(name)), change_(std::move(change)) {}
  std::uint64_t size() const override { return source_->size(); }
  Record read(std::uint64_t i) const override {
    Record record = source_->read(i);
    try {
      return change_(std::move(record));
    } catch (const std::exception& error) {
      fail<DataError>("[map] {} of {}: {}", name_, source_->place(i), error.what());
    }
  }
  std::string place(std::uint64_t i) const override { return source_->place(i); }
  Fingerprint fingerprint() const override {
    return combine(lockstep::fingerprint("map " + name_), source_->fingerprint());
  }

 private:
  SourcePtr source_;
  std::string name_;
  std::function<Record(Record)> change_;
};

}  // namespace

SourcePtr in_memory(std::vector<Record> records) { return std::make_shared<InMemory>(std::move(records)); }

SourcePtr from_function(std::uint64_t size, std::string name, std::function<Record(std::uint64_t)> make) {
  return std::make_shared<FromFunction>(size, std::move(name), std::move(make));
}

SourcePtr concat(std::vector<SourcePtr> sources) {
  return std::make_shared<Concatenated>(std::move(sources));
}

SourcePtr slice(SourcePtr source, std::uint64_t begin, std::uint64_t end) {
  if (begin > end || end > source->size()) {
    fail<DataError>("[slice] records {} to {} were asked for, but the source has {}", begin, end,
                    source->size());
  }
  return std::make_shared<Slice>(std::move(source), begin, end);
}

SourcePtr map(SourcePtr source, std::string name, std::function<Record(Record)> change) {
  return std::make_shared<Mapped>(std::move(source), std::move(name), std::move(change));
}

}  // namespace lockstep::data
