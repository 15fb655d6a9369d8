// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/tokens.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/data/file.h"
#include "lockstep/data/token_numbers.h"

namespace lockstep::data {
namespace {

using internal::check_record;
using internal::File;
using internal::TokenNumbers;

/// A file that only contains tokens after a header.
class PlainTokens final : public Tokens {
 public:
  PlainTokens(std::shared_ptr<const File> file, std::uint64_t header, std::uint64_t count, DType dtype)
      : file_(std::move(file)),
        numbers_(file_, header, count, dtype),
        fingerprint_(
            combine(lockstep::fingerprint(fmt::format("tokens {}", name(dtype))), file_->fingerprint())) {}

  const std::string& url() const override { return file_->url(); }
  std::uint64_t size() const override { return numbers_.size(); }
  void read(std::uint64_t begin, std::span<std::int32_t> into) const override { numbers_.read(begin, into); }
  Fingerprint fingerprint() const override { return fingerprint_; }

 private:
  std::shared_ptr<const File> file_;
  TokenNumbers numbers_;
  Fingerprint fingerprint_;
};

TokensPtr plain(const char* operation, const std::string& url, DType dtype) {
  auto file = std::make_shared<const File>(operation, url);
  const std::uint64_t element = size_of(dtype);
  if (file->size() % element != 0) {
    file->damaged(file->size(), fmt::format("the file does not end with a whole token of {} bytes; it is cut "
                                            "off or of another format",
                                            element));
  }
  const std::uint64_t count = file->size() / element;
  return std::make_shared<PlainTokens>(std::move(file), 0, count, dtype);
}

class Windows final : public Source {
 public:
  Windows(TokensPtr tokens, const WindowOptions& window)
      : tokens_(std::move(tokens)),
        length_(window.length),
        stride_(window.stride == 0 ? window.length : window.stride),
        segments_(window.segments) {
    if (length_ == 0 || length_ >= std::uint64_t{1} << 31)
      fail<DataError>("[windows] expected windows of 1 to 2^31 - 1 tokens, got {}", length_);
    if (segments_ && tokens_->documents() == 0) {
      fail<DataError>("[windows] {} does not say where its documents begin, so its windows have no segments",
                      tokens_->url());
    }
    size_ = tokens_->size() < length_ ? 0 : (tokens_->size() - length_) / stride_ + 1;
  }

  std::uint64_t size() const override { return size_; }

  Record read(std::uint64_t i) const override {
    check_record("windows", tokens_->url(), i, size_);
    const std::uint64_t begin = i * stride_;
    Field tokens{DType::kI32, {static_cast<std::int64_t>(length_)}, std::vector<std::byte>(4 * length_)};
    tokens_->read(begin, {reinterpret_cast<std::int32_t*>(tokens.bytes.data()), length_});
    Record record{{"tokens", std::move(tokens)}};
    if (segments_) record.emplace("segments", Field::of(segments(begin)));
    return record;
  }

  std::string place(std::uint64_t i) const override {
    return fmt::format("{} window {} at token {}", tokens_->url(), i, i * stride_);
  }
  Fingerprint fingerprint() const override {
    return combine(lockstep::fingerprint(fmt::format("windows {} {} {}", length_, stride_, segments_)),
                   tokens_->fingerprint());
  }

 private:
  std::vector<std::int32_t> segments(std::uint64_t begin) const {
    // The last document that begins at or before `begin`.
    std::uint64_t low = 0, high = tokens_->documents();
    while (high - low > 1) {
      const std::uint64_t middle = low + (high - low) / 2;
      (tokens_->document_begin(middle) <= begin ? low : high) = middle;
    }
    std::vector<std::int32_t> numbers;
    std::int32_t segment = 0;
    for (std::uint64_t document = low; numbers.size() < length_; ++document) {
      if (document >= tokens_->documents()) {
        fail<DataError>("[windows] {}: its documents end before its tokens do; it is damaged",
                        tokens_->url());
      }
      const std::uint64_t end = tokens_->document_begin(document + 1);
      if (end <= begin + numbers.size()) continue;
      const std::uint64_t count = std::min(length_ - numbers.size(), end - begin - numbers.size());
      numbers.insert(numbers.end(), count, segment++);
    }
    return numbers;
  }

  TokensPtr tokens_;
  std::uint64_t length_, stride_, size_;
  bool segments_;
};

class Documents final : public Source {
 public:
  explicit Documents(TokensPtr tokens) : tokens_(std::move(tokens)) {}
  std::uint64_t size() const override { return tokens_->documents(); }
  Record read(std::uint64_t i) const override {
    check_record("documents", tokens_->url(), i, size());
    const std::uint64_t begin = tokens_->document_begin(i), end = tokens_->document_begin(i + 1);
    if (end < begin || end > tokens_->size()) {
      fail<DataError>("[documents] {} document {} is said to be tokens {} to {} of {}: the index is damaged",
                      tokens_->url(), i, begin, end, tokens_->size());
    }
    std::vector<std::int32_t> values(end - begin);
    tokens_->read(begin, values);
    return {{"tokens", Field::of(values)}};
  }
  std::string place(std::uint64_t i) const override {
    return fmt::format("{} document {}", tokens_->url(), i);
  }
  Fingerprint fingerprint() const override {
    return combine(lockstep::fingerprint("documents"), tokens_->fingerprint());
  }

 private:
  TokensPtr tokens_;
};

}  // namespace

std::uint64_t Tokens::document_begin(std::uint64_t i) const {
  fail<DataError>("[documents] {} does not say where its document {} begins", url(), i);
}

TokensPtr tokens_u16(const std::string& url) { return plain("tokens_u16", url, DType::kU16); }
TokensPtr tokens_u32(const std::string& url) { return plain("tokens_u32", url, DType::kU32); }

TokensPtr tokens_llm_c(const std::string& url) {
  auto file = std::make_shared<const File>("tokens_llm_c", url);
  constexpr std::uint64_t kHeader = 256 * 4;
  const auto magic = file->number<std::int32_t>(0), version = file->number<std::int32_t>(4);
  DType dtype;
  if (magic == 20240520 && version == 1) {
    dtype = DType::kU16;
  } else if (magic == 20240801 && version == 7) {
    dtype = DType::kU32;
  } else {
    file->damaged(0, fmt::format("expected llm.c's magic 20240520 with version 1, or 20240801 with version "
                                 "7, got {} with version {}",
                                 magic, version));
  }
  const auto count = file->number<std::uint32_t>(8);
  const std::uint64_t expected = kHeader + std::uint64_t{count} * size_of(dtype);
  if (file->size() != expected) {
    file->damaged(8,
                  fmt::format("the header says {} tokens of {} bytes, so {} bytes in all, and the file has "
                              "{}; it is damaged or cut off",
                              count, size_of(dtype), expected, file->size()));
  }
  return std::make_shared<PlainTokens>(std::move(file), kHeader, count, dtype);
}

SourcePtr windows(TokensPtr tokens, WindowOptions window) {
  return std::make_shared<Windows>(std::move(tokens), window);
}

SourcePtr documents(TokensPtr tokens) {
  if (tokens->documents() == 0)
    fail<DataError>("[documents] {} does not say where its documents begin", tokens->url());
  return std::make_shared<Documents>(std::move(tokens));
}

}  // namespace lockstep::data
