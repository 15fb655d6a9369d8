// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/chunk.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/testing/outside_texts.h"

namespace lockstep::cli {
namespace {

using watch::EventReport;
using watch::Kind;

TraceChunk some_events() {
  TraceChunk chunk{.process = 3, .pid = 4711, .lost = 12};
  chunk.events.push_back({.kind = Kind::kLaunch,
                          .what = "step",
                          .site = "train.cc:3",
                          .since_ns = 1'000'000'000'000,
                          .until_ns = 1'000'000'500'000,
                          .number = 7,
                          .mesh = ~std::uint64_t{0},
                          .thread = 2,
                          .tid = 4712});
  chunk.events.push_back({.kind = Kind::kCollective,
                          .what = "psum",
                          .since_ns = 999'999'999'999,
                          .arrived_ns = 999'999'999'999,
                          .until_ns = 1'000'000'000'000,
                          .operation = 99,
                          .depth = 1,
                          .finished = false});
  return chunk;
}

void expect_same(const TraceChunk& a, const TraceChunk& b) {
  EXPECT_EQ(a.process, b.process);
  EXPECT_EQ(a.pid, b.pid);
  EXPECT_EQ(a.lost, b.lost);
  ASSERT_EQ(a.events.size(), b.events.size());
  for (std::size_t i = 0; i < a.events.size(); ++i) {
    const EventReport &x = a.events[i], &y = b.events[i];
    EXPECT_EQ(std::tie(x.kind, x.what, x.site, x.since_ns, x.arrived_ns, x.until_ns, x.number, x.operation,
                       x.mesh, x.depth, x.thread, x.tid, x.finished),
              std::tie(y.kind, y.what, y.site, y.since_ns, y.arrived_ns, y.until_ns, y.number, y.operation,
                       y.mesh, y.depth, y.thread, y.tid, y.finished));
  }
}

TEST(TraceChunk, WithAnyTexts_IsReadBackUnchanged) {
  ChunkWriter writer;
  ChunkReader reader;
  for (const auto& [what, text] : testing::outside_texts()) {
    SCOPED_TRACE(what);
    TraceChunk chunk = some_events();
    chunk.events[0].what = chunk.events[1].site = text;
    expect_same(reader.read(writer.write(chunk)), chunk);
  }
}

TEST(TraceChunk, IsReadBackUnchanged_AndHoldsEachTextOnce) {
  ChunkWriter writer;
  ChunkReader reader;
  const std::string first = writer.write(some_events()), second = writer.write(some_events());
  EXPECT_NE(first.find("train.cc:3"), std::string::npos);
  EXPECT_EQ(second.find("train.cc:3"), std::string::npos);
  expect_same(reader.read(first), some_events());
  expect_same(reader.read(second), some_events());
}

TEST(TraceChunk, DamagedOrWithoutItsTexts_IsAnError) {
  EXPECT_THROW(ChunkReader().read("\xff\xff\xff"), Error);
  ChunkWriter writer;
  writer.write(some_events());
  EXPECT_THROW(ChunkReader().read(writer.write(some_events())), Error);  // its texts went before
}

}  // namespace
}  // namespace lockstep::cli
