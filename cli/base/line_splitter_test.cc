// SPDX-License-Identifier: Apache-2.0
#include "cli/base/line_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LineSplitter, LinesThatArriveInPieces_AreGivenWhole) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.feed("on"), IsEmpty());
  EXPECT_THAT(splitter.feed("e\ntwo\n\nth"), ElementsAre("one", "two", ""));
  EXPECT_THAT(splitter.feed("ree"), IsEmpty());
  EXPECT_THAT(splitter.feed("\n"), ElementsAre("three"));
  EXPECT_EQ(splitter.finish(), std::nullopt);
}

TEST(LineSplitter, TheEndOfAStreamWithoutNewline_IsALine) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.feed("a\nrest"), ElementsAre("a"));
  EXPECT_EQ(splitter.finish(), "rest");
  EXPECT_EQ(splitter.finish(), std::nullopt);
}

TEST(LineSplitter, ALineOverwrittenByCarriageReturns_IsGivenInItsLastState) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.feed("\r10%\r50%"), IsEmpty());
  EXPECT_EQ(splitter.progress(), "50%");
  EXPECT_THAT(splitter.feed("\r100%\nnext\n"), ElementsAre("100%", "next"));
  EXPECT_EQ(splitter.progress(), "");
}

TEST(LineSplitter, CarriageReturnAfterProgress_KeepsTheProgress) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.feed("10%\r"), IsEmpty());
  EXPECT_THAT(splitter.feed("50%\r"), IsEmpty());
  EXPECT_EQ(splitter.progress(), "50%");
  EXPECT_THAT(splitter.feed("\n"), ElementsAre("50%"));
}

TEST(LineSplitter, CarriageReturnOfALineEnding_IsNotProgress) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.feed("one\r\ntwo\r"), ElementsAre("one"));
  EXPECT_EQ(splitter.progress(), "");
  EXPECT_THAT(splitter.feed("\n"), ElementsAre("two"));
}

TEST(LineSplitter, ATooLongLine_IsGivenInParts) {
  LineSplitter splitter;
  const std::string part(LineSplitter::kLongestLine / 2 + 1, 'x');
  EXPECT_THAT(splitter.feed(part), IsEmpty());
  EXPECT_THAT(splitter.feed(part), ElementsAre(part + part));
  EXPECT_EQ(splitter.finish(), std::nullopt);
}

}  // namespace
}  // namespace lockstep::cli
