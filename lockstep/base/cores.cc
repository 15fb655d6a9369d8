// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/cores.h"

#include <fmt/format.h>
#include <sched.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>

namespace lockstep {
namespace {

constexpr std::size_t kWordBits = 8 * sizeof(unsigned long);
constexpr int kMostCores = 1 << 20;

/// The number at the beginning of the text, which it takes off; -1 if there is none.
int take_number(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMostCores) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

CoreMask to_mask(const std::vector<int>& cores) {
  CoreMask mask;
  for (const int core : cores) {
    const std::size_t word = static_cast<std::size_t>(core) / kWordBits;
    if (mask.size() <= word) mask.resize(word + 1);
    mask[word] |= 1UL << (static_cast<std::size_t>(core) % kWordBits);
  }
  return mask;
}

std::vector<int> from_mask(const CoreMask& mask) {
  std::vector<int> cores;
  for (std::size_t core = 0; core < mask.size() * kWordBits; ++core) {
    if ((mask[core / kWordBits] >> (core % kWordBits) & 1) != 0) cores.push_back(static_cast<int>(core));
  }
  return cores;
}

CoreMask allowed_cores() {
  // The kernel wants room for all the cores it could have.
  for (CoreMask mask(16); mask.size() <= 1 << 16; mask.assign(2 * mask.size(), 0)) {
    const std::size_t bytes = mask.size() * sizeof(unsigned long);
    if (sched_getaffinity(0, bytes, reinterpret_cast<cpu_set_t*>(mask.data())) == 0) return mask;
    if (errno != EINVAL) break;
  }
  return {};
}

bool set_allowed_cores(const CoreMask& mask) {
  return sched_setaffinity(0, mask.size() * sizeof(unsigned long),
                           reinterpret_cast<const cpu_set_t*>(mask.data())) == 0;
}

std::string name_cores(const std::vector<int>& cores) {
  std::string names;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    if (!names.empty()) names += ',';
    names += last > i ? fmt::format("{}-{}", cores[i], cores[last]) : fmt::format("{}", cores[i]);
    i = last;
  }
  return names;
}

std::vector<int> cores_of(std::string_view names) {
  std::vector<int> cores;
  do {
    const int first = take_number(names);
    const int last = take(names, '-') ? take_number(names) : first;
    if (first < 0 || last < first) return {};
    for (int core = first; core <= last; ++core) cores.push_back(core);
  } while (take(names, ','));
  return names.empty() ? cores : std::vector<int>();
}

OnHostCores::OnHostCores() {
  const char* names = std::getenv(kHostCoresVariable);
  const std::vector<int> cores = names == nullptr ? std::vector<int>() : cores_of(names);
  if (cores.empty()) return;
  CoreMask before = allowed_cores();
  if (!before.empty() && set_allowed_cores(to_mask(cores))) before_ = std::move(before);
}

OnHostCores::~OnHostCores() {
  if (!before_.empty()) set_allowed_cores(before_);
}

}  // namespace lockstep
