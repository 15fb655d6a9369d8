// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cctype>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/parsers/fuzz.h"

namespace lockstep::parsers {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLongest = 1 << 20;

constexpr std::array<std::uint64_t, 24> kNumbers = {
    0,          1,          2,          3,          7,          8,          127,        128,
    255,        256,        511,        512,        32767,      65535,      0x7fffffff, 0x80000000,
    0xffffffff, 1ull << 32, 1ull << 40, 1ull << 61, 1ull << 62, ~0ull >> 1, 1ull << 63, ~0ull};

constexpr std::array<const char*, 22> kDecimals = {"0",
                                                   "1",
                                                   "-1",
                                                   "2",
                                                   "7",
                                                   "255",
                                                   "65536",
                                                   "1000000",
                                                   "2147483647",
                                                   "2147483648",
                                                   "4294967295",
                                                   "4294967296",
                                                   "1099511627776",
                                                   "9223372036854775807",
                                                   "9223372036854775808",
                                                   "18446744073709551615",
                                                   "18446744073709551616",
                                                   "-9223372036854775808",
                                                   "99999999999999999999999",
                                                   "1e400",
                                                   "1.5",
                                                   "00000000000000000001"};

/// Values that JSON may have in any place.
constexpr std::array<const char*, 24> kValues = {"null",
                                                 "true",
                                                 "false",
                                                 "0",
                                                 "-1",
                                                 "1",
                                                 "1.5",
                                                 "1e300",
                                                 "-0.0",
                                                 "9223372036854775807",
                                                 "18446744073709551615",
                                                 "18446744073709551616",
                                                 "-9223372036854775808",
                                                 "1000000",
                                                 "\"\"",
                                                 "\"x\"",
                                                 "\"..\"",
                                                 "\"\\ud83d\\ude00\"",
                                                 "[]",
                                                 "{}",
                                                 "[0]",
                                                 "[[]]",
                                                 "{\"x\":0}",
                                                 "[1,\"a\",null,[2]]"};

void nodes_of(Json& json, std::vector<Json*>& all) {
  all.push_back(&json);
  if (json.is_structured())
    for (auto& each : json) nodes_of(each, all);
}

/// One change of the JSON: a value becomes another, goes, or comes again.
std::string mutated_json(Json json, Random& random) {
  std::vector<Json*> nodes;
  nodes_of(json, nodes);
  Json& node = *random.of(nodes);
  constexpr const char* kPlace = "@a value@";
  std::string value = random.of(kValues);
  switch (random.below(8)) {
    case 0:
      node = *random.of(nodes);
      value.clear();
      break;
    case 1:
      if (node.is_structured() && !node.empty()) {
        auto at = node.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(random.below(node.size())));
        node.erase(at);
        value.clear();
        break;
      }
      node = kPlace;
      break;
    case 2:
      if (node.is_array() && !node.empty()) {
        const Json again = random.of(node);
        for (std::size_t i = random.below(200); i > 0; --i) node.push_back(again);
        value.clear();
        break;
      }
      node = kPlace;
      break;
    case 3: {
      const std::size_t depth = random.one_in(4) ? 20'000 : 1 + random.below(200);
      const bool objects = random.one_in(2);
      value.clear();
      for (std::size_t i = 0; i < depth; ++i) value += objects ? "{\"a\":" : "[";
      value += "0" + std::string(depth, objects ? '}' : ']');
      node = kPlace;
      break;
    }
    case 4:
      value = random.of(kDecimals);
      node = kPlace;
      break;
    case 5:
      if (node.is_object()) {
        node["@" + std::to_string(random.below(3))] = 1;
        value.clear();
        break;
      }
      [[fallthrough]];
    default:
      node = kPlace;
  }
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::string place = std::string("\"") + kPlace + "\"";
  if (const auto at = text.find(place); at != std::string::npos) text.replace(at, place.size(), value);
  return text;
}

/// One change of the bytes.
void change(std::string& text, const std::vector<std::string>& seeds, Random& random) {
  const std::size_t at = random.below(text.size() + 1), left = text.size() - at;
  const auto piece = [&](const std::string& of) {
    if (of.empty()) return std::string();
    const std::size_t begin = random.below(of.size());
    return of.substr(begin, 1 + random.below(random.one_in(3) ? of.size() : 16));
  };
  switch (random.below(12)) {
    case 0:  // a bit
      if (left > 0) text[at] = static_cast<char>(text[at] ^ 1 << random.below(8));
      break;
    case 1:
      if (left > 0) text[at] = static_cast<char>(random.bits());
      break;
    case 2:
      text.resize(at);
      break;
    case 3:
      text.erase(at, 1 + random.below(random.one_in(3) ? text.size() + 1 : 8));
      break;
    case 4:
      text.insert(at, piece(text));
      break;
    case 5: {  // the end of another
      const std::string& other = random.of(seeds);
      text = text.substr(0, at) +
             other.substr(std::min(other.size(), random.one_in(2) ? at : random.below(other.size() + 1)));
      break;
    }
    case 6: {
      const std::string more = piece(random.of(seeds));
      text.replace(at, std::min(left, more.size()), more);
      break;
    }
    case 7:
    case 8: {  // a number, in either order of its bytes; sometimes near one that is there
      const std::size_t size = std::size_t{1} << random.below(4);
      if (left < size) break;
      std::uint64_t number = random.of(kNumbers);
      if (random.one_in(3)) number = text.size() + random.below(5) - 2;
      if (random.one_in(4)) {
        std::memcpy(&number, text.data() + at, size);
        number += random.below(9) - 4;
      }
      char bytes[8];
      std::memcpy(bytes, &number, 8);
      for (std::size_t i = 0; i < size; ++i) text[at + i] = bytes[i];
      if (random.one_in(4))
        std::reverse(text.begin() + static_cast<std::ptrdiff_t>(at),
                     text.begin() + static_cast<std::ptrdiff_t>(at + size));
      break;
    }
    case 9: {  // a decimal number
      std::size_t begin = at;
      while (begin < text.size() && !std::isdigit(static_cast<unsigned char>(text[begin]))) ++begin;
      std::size_t end = begin;
      while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
      if (end > begin) text.replace(begin, end - begin, random.of(kDecimals));
      break;
    }
    case 10: {  // much of one
      const std::string one = left > 0 ? text.substr(at, 1 + random.below(3)) : "[";
      std::string many;
      for (std::size_t i = random.one_in(8) ? 50'000 : random.below(300); i > 0; --i) many += one;
      text.insert(at, many);
      break;
    }
    default:
      text.insert(at, std::string(random.below(9), random.one_in(2) ? '\0' : '\xff'));
  }
  if (text.size() > kLongest) text.resize(kLongest);
}

}  // namespace

std::string mutated(std::string seed, const std::vector<std::string>& seeds, Random& random) {
  if (!seed.empty() && (seed.front() == '{' || seed.front() == '[') && !random.one_in(3)) {
    if (Json json = Json::parse(seed, nullptr, false); !json.is_discarded()) {
      seed = mutated_json(std::move(json), random);
      if (!random.one_in(4)) return seed;
    }
  }
  for (std::size_t i = random.one_in(3) ? 1 + random.below(8) : 1; i > 0; --i) change(seed, seeds, random);
  return seed;
}

}  // namespace lockstep::parsers
