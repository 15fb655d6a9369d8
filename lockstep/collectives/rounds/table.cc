// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/rounds/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lockstep/base/fail.h"

namespace lockstep::collectives {
namespace {

constexpr std::size_t kKiB = 1 << 10;
constexpr std::size_t kAnyBytes = AlgorithmTable::kAnyBytes;
constexpr int kAnyHosts = AlgorithmTable::kAnyHosts;

// By benchmarks/collectives_scale --all-algorithms: 10 us from host to host, 1 us a message, 10 GB/s. Where
// algorithms are close, the one that needs less memory: pairwise sums need a place for each host's part.
// Widened sums are pairwise where others send more bytes: partial sums have more than the terms.
constexpr AlgorithmTable::Row kRows[] = {
    {Kind::kAllReduce, 2 * kKiB, 16, Algorithm::kDirect},
    {Kind::kAllReduce, 32 * kKiB, 4, Algorithm::kDirect},
    {Kind::kAllReduce, 128 * kKiB, 2, Algorithm::kDirect},
    {Kind::kAllReduce, kAnyBytes, 4, Algorithm::kPairwise},
    {Kind::kAllReduce, 64 * kKiB, kAnyHosts, Algorithm::kRecursiveDoubling},
    {Kind::kAllReduce, kAnyBytes, 64, Algorithm::kPairwise, /*widened=*/true},
    {Kind::kAllReduce, kAnyBytes, kAnyHosts, Algorithm::kHalvingDoubling},
    {Kind::kReduceScatter, 64 * kKiB, 64, Algorithm::kPairwise},
    {Kind::kReduceScatter, kAnyBytes, 64, Algorithm::kPairwise, /*widened=*/true},
    {Kind::kReduceScatter, 64 * kKiB, kAnyHosts, Algorithm::kBruck},
    {Kind::kReduceScatter, kAnyBytes, kAnyHosts, Algorithm::kRing},
    {Kind::kAllGather, kAnyBytes, 64, Algorithm::kPairwise},
    {Kind::kAllGather, 1024 * kKiB, kAnyHosts, Algorithm::kBruck},
    {Kind::kAllGather, kAnyBytes, kAnyHosts, Algorithm::kRing},
    {Kind::kAllToAll, kAnyBytes, 32, Algorithm::kPairwise},
    {Kind::kAllToAll, 2 * kKiB, kAnyHosts, Algorithm::kBruck},
    {Kind::kAllToAll, kAnyBytes, 64, Algorithm::kPairwise},
    {Kind::kAllToAll, kAnyBytes, kAnyHosts, Algorithm::kWideBruck},
    {Kind::kBroadcast, kAnyBytes, 2, Algorithm::kDirect},
    {Kind::kBroadcast, 2 * kKiB, 16, Algorithm::kDirect},
    {Kind::kBroadcast, 64 * kKiB, kAnyHosts, Algorithm::kTree},
    {Kind::kBroadcast, kAnyBytes, kAnyHosts, Algorithm::kScatterBruck},
};

[[noreturn]] void fail_row(std::string_view row, const std::string& why) {
  fail(
      "LOCKSTEP_ALGORITHMS has the row \"{}\": {}; expected KIND:BYTES:HOSTS=ALGORITHM, such as "
      "all-reduce:64K:8=ring",
      row, why);
}

/// The text before the first `divider`; removes both.
std::string_view take(std::string_view& text, char divider) {
  const std::size_t end = std::min(text.find(divider), text.size());
  const std::string_view before = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return before;
}

std::size_t number(std::string_view row, std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error != std::errc() || (!unit.empty() && unit != "K" && unit != "M"))
    fail_row(row, fmt::format("\"{}\" is not a number", text));
  return value * (unit == "K" ? kKiB : unit == "M" ? kKiB * kKiB : 1);
}

AlgorithmTable::Row parse(std::string_view row) {
  std::string_view algorithm = row;
  std::string_view size = take(algorithm, '=');
  const std::string_view kind = take(size, ':'), bytes = take(size, ':'), hosts = size;
  constexpr Kind kKinds[] = {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather, Kind::kAllToAll,
                             Kind::kBroadcast};
  const auto found_kind = std::ranges::find(kKinds, kind, [](Kind k) { return name_of(k); });
  if (found_kind == std::end(kKinds)) fail_row(row, fmt::format("\"{}\" has no choice of algorithms", kind));
  const auto found_algorithm =
      std::ranges::find(kAlgorithms, algorithm, [](Algorithm w) { return name_of(w); });
  if (found_algorithm == std::end(kAlgorithms))
    fail_row(row, fmt::format("\"{}\" is not an algorithm", algorithm));
  if (!is_algorithm_of(*found_algorithm, *found_kind))
    fail_row(row, fmt::format("{} does not have this algorithm", kind));
  return {*found_kind, bytes.empty() ? kAnyBytes : number(row, bytes),
          hosts.empty() ? kAnyHosts : static_cast<int>(std::min<std::size_t>(number(row, hosts), kAnyHosts)),
          *found_algorithm, false};
}

}  // namespace

std::size_t slice_bytes(int hosts) {
  return std::clamp(static_cast<std::size_t>(hosts) * 16 * kKiB, 512 * kKiB, 2048 * kKiB);
}

AlgorithmTable::AlgorithmTable(std::string_view user) {
  while (!user.empty()) rows_.push_back(parse(take(user, ',')));
  rows_.insert(rows_.end(), std::begin(kRows), std::end(kRows));
  fingerprint_ = lockstep::fingerprint(to_string());
}

Algorithm AlgorithmTable::choose(Kind kind, std::size_t bytes, int hosts, bool widened) const {
  const auto fits = [&](const Row& row) {
    return row.kind == kind && bytes <= row.most_bytes && hosts <= row.most_hosts &&
           (widened || !row.widened);
  };
  return std::ranges::find_if(rows_, fits)->algorithm;
}

std::string AlgorithmTable::to_string() const {
  std::string text = fmt::format("{:<16}{:>12}{:>8}  algorithm\n", "collective", "bytes up to", "hosts");
  for (const Row& row : rows_) {
    text += fmt::format("{:<16}{:>12}{:>8}  {}{}\n", name_of(row.kind),
                        row.most_bytes == kAnyBytes ? "any" : fmt::format("{}", row.most_bytes),
                        row.most_hosts == kAnyHosts ? "any" : fmt::format("{}", row.most_hosts),
                        name_of(row.algorithm), row.widened ? " (sums of floats of 8 and 16 bits)" : "");
  }
  return text;
}

}  // namespace lockstep::collectives
