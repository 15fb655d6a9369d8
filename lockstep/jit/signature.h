#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/array/array.h"

namespace lockstep::internal {

/// Its address stands for the C++ type.
template <class T>
inline char type_mark = 0;

/// What tells two calls of a function apart: the C++ types of its result and arguments, the types of the
/// arrays among the arguments, and all else that the trees hold. It is a visitor of trees. Calls have the
/// same words exactly if one compiled form serves both.
class Signature {
 public:
  /// What a word is, where it is remembered.
  enum class Word : char {
    kResult,    ///< the mark of the result's C++ type
    kArgument,  ///< the mark of an argument's C++ type; what follows, until the next, is the argument's
    kArray,     ///< the array's ArrayType
    kSigned,
    kUnsigned,
    kReal,
    kText,  ///< its length; its bytes follow as
    kRest,  ///< more of the thing before
  };

  /// `described`: remembers what each word is.
  explicit Signature(bool described = false) : described_(described) {}

  template <class T>
  void result() {
    add(Word::kResult, std::bit_cast<std::uintptr_t>(&type_mark<T>));
  }

  /// Begins the next argument, of this C++ type.
  template <class T>
  void argument() {
    add(Word::kArgument, std::bit_cast<std::uintptr_t>(&type_mark<T>));
    ++num_arguments_;
  }

  void leaf(const Array& array);
  template <class T>
  void structure(const T& value) {
    if constexpr (std::is_same_v<T, std::string>)
      text(value);
    else if constexpr (std::is_same_v<T, long double>)
      long_real(value);
    else if constexpr (std::is_floating_point_v<T>)
      add(Word::kReal, std::bit_cast<std::uint64_t>(static_cast<double>(value)));
    else if constexpr (std::is_unsigned_v<T>)
      add(Word::kUnsigned, value);
    else
      add(Word::kSigned, static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
  }

  void clear() {
    words_.clear();
    kinds_.clear();
    leaves_.clear();
    num_arguments_ = 0;
  }
  const std::vector<std::uint64_t>& words() const { return words_; }
  const std::vector<const Array*>& leaves() const { return leaves_; }
  std::size_t num_arguments() const { return num_arguments_; }

  /// Of each word, where it is described.
  const std::vector<Word>& kinds() const { return kinds_; }

  /// Of each leaf the number of its argument; of a described signature.
  std::vector<int> argument_of() const;

 private:
  void add(Word kind, std::uint64_t word) {
    words_.push_back(word);
    if (described_) kinds_.push_back(kind);
  }
  void text(const std::string& value);
  void long_real(long double value);

  bool described_;
  std::vector<std::uint64_t> words_;
  std::vector<Word> kinds_;
  std::vector<const Array*> leaves_;
  std::size_t num_arguments_ = 0;
};

/// An empty Signature in memory that this thread keeps, so that a cached call allocates none.
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

/// In words, how a call's signature differs from another's of the same function: "argument 1: f32[8] was
/// f32[7]". And by how much, to find the nearest.
struct SignatureDifference {
  std::size_t count = 0;
  std::string text;
};
SignatureDifference difference(const std::vector<std::uint64_t>& words,
                               const std::vector<Signature::Word>& kinds,
                               const std::vector<std::uint64_t>& other_words,
                               const std::vector<Signature::Word>& other_kinds);

}  // namespace lockstep::internal
