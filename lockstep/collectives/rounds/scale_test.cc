// SPDX-License-Identifier: Apache-2.0
// Counts a member's partners and memory, which stay small on up to 16,384 hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "lockstep/collectives/rounds/pieces.h"
#include "lockstep/collectives/rounds/schedule_run.h"
#include "lockstep/collectives/rounds/table.h"
#include "lockstep/collectives/wire.h"

namespace lockstep::collectives {
namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr int kScales[] = {2, 3, 64, 65, 100, 256, 257, 1000, 1024, 4096, 4097, 10'000, 16'384};
constexpr Kind kScaledKinds[] = {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather, Kind::kAllToAll,
                                 Kind::kBroadcast};
constexpr std::size_t kParts[] = {64, 4 << 10, 128 << 10, 2 << 20, 256 << 20};
const AlgorithmTable kTable("");

std::size_t bytes_of_algorithm(Kind kind, std::size_t part, int hosts, const SumTypes& types = DType::kF32) {
  const Algorithm algorithm = kTable.choose(kind, part, hosts, types.partial != types.result);
  return scratch_bytes(*make_schedule(algorithm, {kind, 1, hosts, part}), types);
}

TEST(OnManyHosts, EachMember_TalksToFewHosts) {
  for (const int hosts : kScales) {
    for (const int host : {0, 1, hosts / 2, hosts - 1}) {
      const std::vector<int> told = hosts_to_tell(host, hosts);
      std::set<int> partners(told.begin(), told.end());
      for (const Kind kind : kScaledKinds) {
        for (const std::size_t part : kParts) {
          const std::size_t bytes = kind == Kind::kAllReduce ? all_reduce_slice(part, hosts, 1) : part;
          for (const bool widened : {false, true}) {
            const auto schedule =
                make_schedule(kTable.choose(kind, bytes, hosts, widened), {kind, host, hosts, bytes});
            // The many rounds of a ring are all with the same two.
            for (int number = 0; number < std::min(schedule->rounds(), 100); ++number) {
              Round round;
              schedule->write(number, round);
              for (const auto& message : round.sends) partners.insert(message.peer);
              for (const auto& message : round.receives) partners.insert(message.peer);
            }
          }
        }
      }
      partners.erase(host);
      EXPECT_LE(partners.size(), 63u) << "host " << host << " of " << hosts;
    }
  }
}

TEST(OnManyHosts, ScratchMemory_StaysBelow64Megabytes) {
  for (const int hosts : kScales) {
    const auto n = static_cast<std::size_t>(hosts);
    for (const std::size_t part : kParts) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF8E5M2}) {
        for (const int locals : {1, 8, 64}) {
          const SumTypes types(ReduceOp::kSum, dtype, /*partial_input=*/locals > 1);
          const std::size_t scale = types.scale(Area::kInput);
          const std::size_t slice = all_reduce_slice(part * scale, hosts, locals) / scale;
          const std::size_t slots = slice * (scale == 1 ? 1 : scale + 1);
          const std::size_t all_reduce =
              kSlicesInFlight * (slots + bytes_of_algorithm(Kind::kAllReduce, slice, hosts, types)) +
              static_cast<std::size_t>(locals) * slice;
          EXPECT_LE(all_reduce, 64 * kMiB)
              << hosts << " hosts, " << locals << " members each, " << part << " of " << name(dtype);
          const std::size_t widest = types.scale(Area::kPartial);
          const std::size_t piece = piece_bytes(part * widest, n) / widest;
          const std::size_t reduce_scatter =
              n * piece * scale + kStaged + bytes_of_algorithm(Kind::kReduceScatter, piece, hosts, types);
          EXPECT_LE(reduce_scatter, 64 * kMiB)
              << hosts << " hosts, " << locals << " members each, " << part << " of " << name(dtype);
        }
      }
      const std::size_t piece = piece_bytes(part, n);
      // Regrouping for the members of a host takes kStaged more, or one host's pieces.
      for (const Kind kind : {Kind::kAllGather, Kind::kAllToAll}) {
        const std::size_t bytes = 2 * n * piece + kStaged + bytes_of_algorithm(kind, piece, hosts);
        EXPECT_LE(bytes, 64 * kMiB) << name_of(kind) << ", " << hosts << " hosts, " << part;
      }
      const std::size_t together = piece_bytes(part, n * 8, kLeastPiece / 8);
      EXPECT_LE(2 * n * 8 * together + bytes_of_algorithm(Kind::kAllToAll, 8 * together, hosts), 64 * kMiB)
          << hosts << " hosts of 8 members, " << part;
    }
  }
}

}  // namespace
}  // namespace lockstep::collectives
