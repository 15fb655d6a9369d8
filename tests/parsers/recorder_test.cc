// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "lockstep/base/fail.h"
#include "lockstep/data/test_files.h"
#include "lockstep/watch/reader.h"
#include "lockstep/watch/recorder.h"
#include "tests/parsers/fuzz.h"

namespace lockstep::parsers {
namespace {

using data::test::les;
using namespace watch;

/// A word of the memory that is overwritten.
struct Change {
  std::uint8_t where, which;
  std::uint16_t word;
  std::uint32_t low, high;
};

/// Eight bytes of the memory that a change is of.
char* place_of(Memory& memory, const Change& change) {
  char* begin = nullptr;
  std::size_t size = 0;
  const auto take = [&](auto& part, std::size_t most) {
    begin = reinterpret_cast<char*>(&part);
    size = std::min(sizeof part, most);
  };
  switch (change.where % 5) {
    case 0:
      take(memory.header, sizeof(Header));
      break;
    case 1:
      take(memory.threads[change.which % 3], offsetof(Thread, events));
      break;
    case 2:
      take(memory.threads[change.which % 3].events, kEvents * sizeof(Event));
      break;
    case 3:
      take(memory.meshes[change.which % 3], sizeof(MeshLog));
      break;
    default:
      take(memory.texts, 4096);
  }
  return begin + std::size_t{change.word} * 4 % (size - 8) / 4 * 4;
}

TEST(Recorder, MemoryWithWordsOverwritten_IsReadWithinBounds) {
  Memory* mine = memory();
  if (mine == nullptr) GTEST_SKIP() << "nothing is recorded";
  set_process(1, 4);
  MeshPlace* mesh = mesh_place(99, "0-3");
  ASSERT_NE(mesh, nullptr);
  for (int i = 0; i < 5; ++i) {
    count_launch(*mesh, {7, text("step(f32[8])"), text(std::string(3000, 'p'))}, text("train.cc:3"));
    const Doing done(Kind::kLaunch, text("step"), text("train.cc:3"), static_cast<std::uint64_t>(i));
  }
  set_metrics(3, R"({"loss": 0.5})");
  const Doing outer(Kind::kPhase, text("epoch"), 0), inner(Kind::kCollective, text("psum"), 0);
  const int missing[] = {2, 3};
  waits_for(missing, 17);
  auto forged = std::make_unique<Memory>();
  std::memcpy(static_cast<void*>(forged.get()), mine, sizeof(Memory));
  TickClock clock(forged->header.clock.load());
  std::unique_ptr<Reader> reader;  // a new one now and then, for its clock waits for 20 ms
  int reads = 0;
  fuzz<DataError>(
      {.name = "recorder's memory",
       .seeds = {les<Change>({{4, 0, 2, 'a', 'b'}, {0, 0, 5, 0, 0}}),
                 les<Change>({{1, 0, 2, 1, 0}, {3, 0, 4, 9, 0}, {2, 0, 16, 3, 0}}),
                 les<Change>({{3, 0, 6, 3, 0}}), les<Change>({{3, 0, 4, ~0u, ~0u}, {2, 0, 0, ~0u, ~0u}})},
       .read =
           [&](const std::string& bytes) {
             std::vector<std::pair<char*, std::uint64_t>> before;
             for (std::size_t at = 0; at + sizeof(Change) <= bytes.size() && at < 100 * sizeof(Change);
                  at += sizeof(Change)) {
               Change change;
               std::memcpy(&change, bytes.data() + at, sizeof change);
               char* place = place_of(*forged, change);
               std::uint64_t word = 0;
               std::memcpy(&word, place, 8);
               before.emplace_back(place, word);
               std::memcpy(place, &change.low, 8);
             }
             if (reads++ % 64 == 0) reader = std::make_unique<Reader>(*forged);
             reader->read(true);
             std::uint64_t lost = 0;
             reader->events(clock, &lost);
             reader->unfinished(clock);
             for (auto each = before.rbegin(); each != before.rend(); ++each)
               std::memcpy(each->first, &each->second, 8);
             if (bytes.size() % sizeof(Change) != 0) fail<DataError>("not whole");
           },
       .mutations = 1000,
       .memory = std::size_t{256} << 20});
}

}  // namespace
}  // namespace lockstep::parsers
