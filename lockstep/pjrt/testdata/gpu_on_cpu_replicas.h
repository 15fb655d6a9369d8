// SPDX-License-Identifier: Apache-2.0
// Which replicas of a program for the devices of all processes are in this process, and the program for them
// alone.
#pragma once

#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace gpu_on_cpu {

// The wire format of protocol buffers, as far as CompileOptionsProto needs it.
inline unsigned long long varint(const std::string& bytes, size_t& at) {
  unsigned long long value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(at++));
    value |= static_cast<unsigned long long>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

/// The last bytes of this field in the message; empty if it has none.
inline std::string field(const std::string& message, unsigned wanted) {
  std::string found;
  for (size_t at = 0; at < message.size();) {
    const unsigned long long key = varint(message, at), size = key % 8 == 1 ? 8 : varint(message, at);
    if (key % 8 == 1) at += 8;
    if (key % 8 != 2) continue;
    if (key / 8 == wanted) found = message.substr(at, size);
    at += size;
  }
  return found;
}

inline std::string number_field(unsigned field, unsigned long long value) {
  std::string out(1, static_cast<char>(field * 8));
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

inline std::string bytes_field(unsigned field, const std::string& bytes) {
  std::string out = number_field(field, bytes.size());
  out[0] = static_cast<char>(field * 8 + 2);
  return out + bytes;
}

/// The devices, by the plugin's numbers, to which the options assign replicas, and those of them in this
/// process.
struct Replicas {
  std::vector<long long> all, here;
  size_t first = 0;  ///< the number of the first replica in this process; its others follow

  Replicas(const std::string& options, const std::set<long long>& local) {
    const std::string ids = field(field(field(field(options, 3), 9), 3), 1);
    for (size_t at = 0; at < ids.size();) all.push_back(static_cast<long long>(varint(ids, at)));
    for (size_t i = 0; i < all.size(); ++i) {
      if (local.count(all[i]) == 0) continue;
      if (here.empty()) first = i;
      here.push_back(all[i]);
    }
  }

  /// CompileOptionsProto for the replicas in this process.
  std::string options() const {
    std::string ids;
    for (long long id : here) ids += number_field(0, static_cast<unsigned long long>(id)).substr(1);
    const std::string assignment =
        number_field(1, here.size()) + number_field(2, 1) + bytes_field(3, bytes_field(1, ids));
    return bytes_field(3, number_field(4, here.size()) + number_field(5, 1) + bytes_field(9, assignment));
  }

  /// Whether a collective of the program is, or may be, between replicas in this process and others.
  bool meets_others(const std::string& text) const {
    return text.find("stablehlo.collective_permute") != text.npos || program(text).empty();
  }

  /// The program for the replicas in this process: groups of other replicas are left out. Empty if only a
  /// part of a group is in this process.
  std::string program(std::string text) const {
    static const std::regex groups("replica_groups = dense<\\[(.*?)\\]> : tensor<[0-9]+x[0-9]+xi64>");
    static const std::regex group("\\[([0-9, ]+)\\]");
    std::string out;
    std::smatch match;
    while (std::regex_search(text, match, groups)) {
      const std::string list = match[1];
      std::string kept;
      size_t count = 0, size = 0;
      for (std::sregex_iterator it(list.begin(), list.end(), group), end; it != end; ++it) {
        std::istringstream numbers((*it)[1]);
        std::string renumbered;
        size_t inside = 0, members = 0;
        for (std::string number; std::getline(numbers, number, ','); ++members) {
          const size_t replica = std::stoul(number);
          if (replica < first || replica >= first + here.size()) continue;
          renumbered += (inside++ == 0 ? "" : ", ") + std::to_string(replica - first);
        }
        if (inside == 0) continue;
        if (inside != members) return "";
        kept += (count++ == 0 ? "[" : ", [") + renumbered + "]";
        size = members;
      }
      out += match.prefix().str() + "replica_groups = dense<[" + kept + "]> : tensor<" +
             std::to_string(count) + "x" + std::to_string(size) + "xi64>";
      text = match.suffix();
    }
    out += text;
    static const std::regex replica("%([0-9a-z]+) = stablehlo.replica_id : tensor<ui32>");
    return std::regex_replace(out, replica,
                              "%here_$1 = stablehlo.replica_id : tensor<ui32>\n"
                              "    %first_$1 = stablehlo.constant dense<" +
                                  std::to_string(first) +
                                  "> : tensor<ui32>\n"
                                  "    %$1 = stablehlo.add %here_$1, %first_$1 : tensor<ui32>");
  }
};

}  // namespace gpu_on_cpu
