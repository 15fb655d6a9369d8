// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "lockstep/array/data.h"
#include "lockstep/base/thread_end.h"

namespace lockstep::internal {

void Signature::result(const tree::TreeType& type) {
  add(Word::kResult, std::bit_cast<std::uintptr_t>(&type));
}

void Signature::argument(tree::TreeRef tree) {
  add(Word::kArgument, std::bit_cast<std::uintptr_t>(tree.type));
  ++num_arguments_;
  tree.type->visit(tree.tree, *this);
}

void Signature::leaf(Array& array) {
  leaves_.push_back(&array);
  add(Word::kArray, std::bit_cast<std::uintptr_t>(concrete(array, "[jit] an argument:").type.get()));
}

void Signature::text(const std::string& value) {
  add(Word::kText, value.size());
  for (std::size_t at = 0; at < value.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, value.data() + at, std::min(sizeof word, value.size() - at));
    add(Word::kRest, word);
  }
}

void Signature::real(double value) { add(Word::kReal, std::bit_cast<std::uint64_t>(value)); }

void Signature::long_real(long double value) {
  const auto high = static_cast<double>(value);
  const auto low = static_cast<double>(value - high);
  add(Word::kReal, std::bit_cast<std::uint64_t>(high));
  add(Word::kRest, std::bit_cast<std::uint64_t>(low));
}

std::vector<int> Signature::argument_of() const {
  std::vector<int> all;
  int argument = -1;
  for (Word kind : kinds_) {
    if (kind == Word::kArgument) ++argument;
    if (kind == Word::kArray) all.push_back(argument);
  }
  return all;
}

namespace {

thread_local Signature spare;

/// One thing that an argument holds.
struct Item {
  bool is_array;
  std::string value, where;  ///< where: an array's sharding
};

struct Argument {
  std::uint64_t type = 0;
  std::vector<Item> items;
};

std::string text_of(const std::vector<std::uint64_t>& words, std::size_t i) {
  std::string text((words[i] + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t) * sizeof(std::uint64_t),
                   ' ');
  if (!text.empty()) std::memcpy(text.data(), &words[i + 1], text.size());
  text.resize(words[i]);
  return '"' + text + '"';
}

std::vector<Argument> arguments_of(const std::vector<std::uint64_t>& words,
                                   const std::vector<Signature::Word>& kinds) {
  using Word = Signature::Word;
  std::vector<Argument> all;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint64_t word = words[i];
    auto add = [&](bool is_array, std::string value, std::string where = {}) {
      all.back().items.push_back({is_array, std::move(value), std::move(where)});
    };
    switch (kinds[i]) {
      case Word::kResult:
      case Word::kRest:
        break;
      case Word::kArgument:
        all.push_back({word, {}});
        break;
      case Word::kArray: {
        const auto& type = *std::bit_cast<const ArrayType*>(static_cast<std::uintptr_t>(word));
        add(true, to_string(type.aval), type.committed ? type.sharding.to_string() : "no device of its own");
        break;
      }
      case Word::kSigned:
        add(false, fmt::format("{}", static_cast<std::int64_t>(word)));
        break;
      case Word::kHere:
      case Word::kUnsigned:
        add(false, fmt::format("{}", word));
        break;
      case Word::kReal:
        add(false, fmt::format("{}", std::bit_cast<double>(word)));
        break;
      case Word::kText:
        add(false, text_of(words, i));
        break;
    }
  }
  return all;
}

/// "argument 1", or "argument 1, array 3" if it contains several.
std::string place(std::size_t number, const Argument& argument, std::size_t item) {
  std::string text = fmt::format("argument {}", number);
  if (argument.items.size() == 1) return text;
  const bool is_array = argument.items[item].is_array;
  std::size_t k = 0;
  for (std::size_t i = 0; i < item; ++i) k += argument.items[i].is_array == is_array;
  return text + fmt::format(", {} {}", is_array ? "array" : "number", k);
}

}  // namespace

SpareSignature::SpareSignature() {
  check_before_end("jit");
  signature_ = std::move(spare);
  signature_.clear();
}

SpareSignature::~SpareSignature() { spare = std::move(signature_); }

SignatureDifference difference(const std::vector<std::uint64_t>& words,
                               const std::vector<Signature::Word>& kinds,
                               const std::vector<std::uint64_t>& other_words,
                               const std::vector<Signature::Word>& other_kinds) {
  constexpr std::size_t kShown = 3;
  const std::vector<Argument> now = arguments_of(words, kinds),
                              before = arguments_of(other_words, other_kinds);
  SignatureDifference result;
  auto note = [&](const std::string& text) {
    if (++result.count <= kShown) result.text += (result.count == 1 ? "" : "; ") + text;
  };
  if (now.size() != before.size()) note(fmt::format("{} arguments were {}", now.size(), before.size()));
  for (std::size_t k = 0; k < std::min(now.size(), before.size()); ++k) {
    const Argument &mine = now[k], &other = before[k];
    if (mine.type != other.type) {
      note(fmt::format("argument {} was of another C++ type", k));
    } else if (mine.items.size() != other.items.size()) {
      note(fmt::format("argument {}: a tree of {} arrays and numbers was one of {}", k, mine.items.size(),
                       other.items.size()));
    } else {
      for (std::size_t i = 0; i < mine.items.size(); ++i) {
        const Item &a = mine.items[i], &b = other.items[i];
        if (a.value != b.value)
          note(fmt::format("{}: {} was {}", place(k, mine, i), a.value, b.value));
        else if (a.where != b.where)
          note(fmt::format("{}: {} with {} was with {}", place(k, mine, i), a.value, a.where, b.where));
      }
    }
  }
  if (result.count > kShown) result.text += fmt::format("; and {} more", result.count - kShown);
  return result;
}

std::vector<std::vector<std::string>> texts_of(const std::vector<std::uint64_t>& words,
                                               const std::vector<Signature::Word>& kinds) {
  std::vector<std::vector<std::string>> all;
  for (const Argument& argument : arguments_of(words, kinds)) {
    std::vector<std::string>& texts = all.emplace_back();
    for (const Item& item : argument.items)
      texts.push_back(item.is_array ? fmt::format("{} with {}", item.value, item.where) : item.value);
  }
  return all;
}

}  // namespace lockstep::internal
