// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/numbers_file.h"

#include <fstream>

namespace lockstep::fuzz {
namespace {

template <class T>
void put(std::ofstream& out, const T& value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof(T));
}

template <class T>
T get(std::ifstream& in) {
  T value{};
  in.read(reinterpret_cast<char*>(&value), sizeof(T));
  return value;
}

template <class T>
void put_list(std::ofstream& out, const std::vector<T>& list) {
  put(out, list.size());
  for (const T& each : list) put(out, each);
}

template <class T>
std::vector<T> get_list(std::ifstream& in) {
  std::vector<T> list(get<std::size_t>(in));
  for (T& each : list) each = get<T>(in);
  return list;
}

}  // namespace

void write_numbers(const std::filesystem::path& file,
                   const std::map<std::uint64_t, std::vector<Numbers>>& all) {
  std::ofstream out(file, std::ios::binary);
  put(out, all.size());
  for (const auto& [seed, outputs] : all) {
    put(out, seed);
    put(out, outputs.size());
    for (const Numbers& each : outputs) {
      put(out, each.type.dtype);
      put_list(out, each.type.shape);
      put_list(out, each.elements);
    }
  }
}

std::map<std::uint64_t, std::vector<Numbers>> read_numbers(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::map<std::uint64_t, std::vector<Numbers>> all;
  for (auto n = get<std::size_t>(in); n > 0; --n) {
    std::vector<Numbers>& outputs = all[get<std::uint64_t>(in)];
    outputs.resize(get<std::size_t>(in));
    for (Numbers& each : outputs) {
      each.type.dtype = get<DType>(in);
      each.type.shape = get_list<std::int64_t>(in);
      each.elements = get_list<long double>(in);
    }
  }
  return all;
}

}  // namespace lockstep::fuzz
