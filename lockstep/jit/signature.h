// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/tree/tree_type.h"

namespace lockstep::internal {

/// Words that distinguish two calls of a function: the C++ types of its result and arguments, the types of
/// the arrays among the arguments, and all other contents of the trees. Calls have the same words if and only
/// if one compiled form serves both.
class Signature final : private tree::Visitor {
 public:
  /// The meaning of a word, if it is recorded.
  enum class Word : char {
    kResult,    ///< the mark of the result's C++ type
    kArgument,  ///< the mark of an argument's C++ type; the words up to the next one belong to the argument
    kArray,     ///< the array's ArrayType
    kSigned,
    kUnsigned,
    kReal,
    kText,  ///< its length, followed by its bytes as kRest
    kHere,  ///< only valid in this process: an address, the id of a Static
    kRest,  ///< the continuation of the previous word
  };

  /// `described`: records the meaning of each word.
  explicit Signature(bool described = false) : described_(described) {}

  void result(const tree::TreeType& type);

  /// Adds the next argument. The tree must stay in place as long as `leaves` is used.
  void argument(tree::TreeRef tree);

  void clear() {
    words_.clear();
    kinds_.clear();
    leaves_.clear();
    num_arguments_ = 0;
  }
  const std::vector<std::uint64_t>& words() const { return words_; }
  const std::vector<const Array*>& leaves() const { return leaves_; }
  std::size_t num_arguments() const { return num_arguments_; }

  /// The meaning of each word, if described.
  const std::vector<Word>& kinds() const { return kinds_; }

  /// For each leaf the number of its argument; only if described.
  std::vector<int> argument_of() const;

 private:
  void add(Word kind, std::uint64_t word) {
    words_.push_back(word);
    if (described_) kinds_.push_back(kind);
  }
  void leaf(Array& array) override;
  void size(std::size_t size) override { add(Word::kUnsigned, size); }
  void text(const std::string& value) override;
  void real(double value) override;
  void long_real(long double value) override;
  void natural(std::uint64_t value) override { add(Word::kUnsigned, value); }
  void only_here(std::uint64_t value) override { add(Word::kHere, value); }
  void integer(std::int64_t value) override { add(Word::kSigned, static_cast<std::uint64_t>(value)); }

  bool described_;
  std::vector<std::uint64_t> words_;
  std::vector<Word> kinds_;
  std::vector<const Array*> leaves_;
  std::size_t num_arguments_ = 0;
};

/// An empty Signature in memory that this thread keeps, so that a cached call does not allocate.
class SpareSignature {
 public:
  SpareSignature();
  ~SpareSignature();
  SpareSignature(const SpareSignature&) = delete;
  SpareSignature& operator=(const SpareSignature&) = delete;

  Signature& operator*() { return signature_; }
  Signature* operator->() { return &signature_; }

 private:
  Signature signature_;
};

/// How a call's signature differs from another one of the same function, in words: "argument 1: f32[8] was
/// f32[7]". `count` is the number of differences, to find the nearest.
struct SignatureDifference {
  std::size_t count = 0;
  std::string text;
};
SignatureDifference difference(const std::vector<std::uint64_t>& words,
                               const std::vector<Signature::Word>& kinds,
                               const std::vector<std::uint64_t>& other_words,
                               const std::vector<Signature::Word>& other_kinds);

/// The contents of each argument: "f32[8] with NamedSharding(Mesh(data=4), P('data'))", "3". Equal in two
/// processes whose calls are the same, if no word is kHere.
std::vector<std::vector<std::string>> texts_of(const std::vector<std::uint64_t>& words,
                                               const std::vector<Signature::Word>& kinds);

}  // namespace lockstep::internal
