// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/data/file.h"
#include "lockstep/data/token_numbers.h"
#include "lockstep/data/tokens.h"

namespace lockstep::data {
namespace {

using internal::File;
using internal::TokenNumbers;

/// PREFIX.idx: "MMIDIDX\0\0", u64 version 1, u8 dtype, u64 sequences, u64 places of documents (one more than
/// documents), then i32 lengths of sequences in tokens, i64 places of sequences in bytes, i64 numbers of the
/// documents' first sequences, and, for several kinds of data, an i8 for each sequence.
class Index {
 public:
  static constexpr std::uint64_t kHeader = 9 + 8 + 1 + 8 + 8;

  explicit Index(const std::string& url) : file_("tokens_megatron", url) {
    if (file_.text(0, 9) != std::string("MMIDIDX\0\0", 9))
      file_.damaged(0, "expected 'MMIDIDX' and two zeros: this is not an index of Megatron's");
    if (auto version = file_.number<std::uint64_t>(9); version != 1)
      file_.damaged(9, fmt::format("expected version 1, got {}", version));
    const auto code = file_.number<std::uint8_t>(17);
    switch (code) {
      case 1:
        dtype_ = DType::kU8;
        break;
      case 2:
        dtype_ = DType::kI8;
        break;
      case 3:
        dtype_ = DType::kI16;
        break;
      case 4:
        dtype_ = DType::kI32;
        break;
      case 5:
        dtype_ = DType::kI64;
        break;
      case 8:
        dtype_ = DType::kU16;
        break;
      default:
        file_.damaged(17, fmt::format("expected a dtype of whole numbers (1 to 5, or 8), got {}", code));
    }
    sequences_ = file_.number<std::uint64_t>(18);
    places_ = file_.number<std::uint64_t>(26);
    std::uint64_t lengths, documents, expected;
    if (!internal::multiply(sequences_, 12, &lengths) || !internal::multiply(places_, 8, &documents) ||
        __builtin_add_overflow(lengths, documents, &expected) ||
        __builtin_add_overflow(expected, kHeader, &expected) ||
        (file_.size() != expected && file_.size() != expected + sequences_)) {
      file_.damaged(18,
                    fmt::format("{} sequences and {} places of documents do not fit a file of {} bytes; it "
                                "is damaged or cut off",
                                sequences_, places_, file_.size()));
    }
    if (places_ == 0 || document(0) != 0 || document(places_ - 1) != sequences_)
      file_.damaged(kHeader + lengths, "the documents do not cover the sequences; the index is damaged");
  }

  const File& file() const { return file_; }
  DType dtype() const { return dtype_; }
  std::uint64_t sequences() const { return sequences_; }
  std::uint64_t documents() const { return places_ - 1; }

  /// The first sequence of a document.
  std::uint64_t document(std::uint64_t i) const {
    return file_.number<std::uint64_t>(kHeader + 12 * sequences_ + 8 * i);
  }
  std::int32_t length(std::uint64_t sequence) const {
    return file_.number<std::int32_t>(kHeader + 4 * sequence);
  }
  /// In bytes.
  std::uint64_t place(std::uint64_t sequence) const {
    return file_.number<std::uint64_t>(place_offset(sequence));
  }
  std::uint64_t place_offset(std::uint64_t sequence) const { return kHeader + 4 * sequences_ + 8 * sequence; }

 private:
  File file_;
  DType dtype_ = DType::kU16;
  std::uint64_t sequences_ = 0, places_ = 0;
};

class MegatronTokens final : public Tokens {
 public:
  explicit MegatronTokens(const std::string& prefix)
      : index_(prefix + ".idx"),
        file_(std::make_shared<const File>("tokens_megatron", prefix + ".bin")),
        numbers_(file_, 0, file_->size() / size_of(index_.dtype()), index_.dtype()),
        fingerprint_(combine(combine(lockstep::fingerprint("tokens_megatron"), index_.file().fingerprint()),
                             file_->fingerprint())) {
    std::uint64_t end = 0;
    if (const std::uint64_t sequences = index_.sequences(); sequences > 0) {
      const std::uint64_t last = sequences - 1;
      if (index_.place(0) != 0)
        index_.file().damaged(index_.place_offset(0), "the first sequence is not at byte 0 of the .bin");
      const std::int32_t length = index_.length(last);
      if (length < 0 ||
          __builtin_add_overflow(index_.place(last),
                                 static_cast<std::uint64_t>(length) * size_of(index_.dtype()), &end)) {
        index_.file().damaged(index_.place_offset(last),
                              "the last sequence has no end; the index is damaged");
      }
    }
    if (end != file_->size()) {
      index_.file().damaged(
          index_.place_offset(0),
          fmt::format(
              "the sequences end at byte {} of {}, which has {}; one of the two is damaged or cut off", end,
              file_->url(), file_->size()));
    }
  }

  const std::string& url() const override { return file_->url(); }
  std::uint64_t size() const override { return numbers_.size(); }
  void read(std::uint64_t begin, std::span<std::int32_t> into) const override { numbers_.read(begin, into); }
  std::uint64_t documents() const override { return index_.documents(); }

  std::uint64_t document_begin(std::uint64_t i) const override {
    const std::uint64_t sequence = index_.document(i);
    if (sequence == index_.sequences()) return size();
    if (sequence > index_.sequences()) {
      index_.file().damaged(index_.place_offset(index_.sequences()) + 8 * i,
                            fmt::format("document {} begins at sequence {} of {}; the index is damaged", i,
                                        sequence, index_.sequences()));
    }
    const std::uint64_t place = index_.place(sequence), element = size_of(index_.dtype());
    if (place % element != 0 || place > file_->size()) {
      index_.file().damaged(
          index_.place_offset(sequence),
          fmt::format("sequence {} is said to begin at byte {} of {}, which has {}; the index "
                      "is damaged",
                      sequence, place, file_->url(), file_->size()));
    }
    return place / element;
  }

  Fingerprint fingerprint() const override { return fingerprint_; }

 private:
  Index index_;
  std::shared_ptr<const File> file_;
  TokenNumbers numbers_;
  Fingerprint fingerprint_;
};

}  // namespace

TokensPtr tokens_megatron(const std::string& prefix) {
  internal::check_url("tokens_megatron", prefix);
  return std::make_shared<MegatronTokens>(prefix);
}

}  // namespace lockstep::data
