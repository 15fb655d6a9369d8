// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/array/host.h"
#include "lockstep/base/error.h"
#include "lockstep/program/op_params.h"
#include "lockstep/program/primitives/elementwise.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Array add(const Array& x, const Array& y) {
  const Array operands[] = {x, y};
  return apply_primitive(ir::add_p(), {}, operands).front();
}

Array pair_of(float a, float b) {
  const float values[] = {a, b};
  return internal::array_from_host(values, DType::kF32, {2});
}

const Aval kPair{DType::kF32, {2}, false, {}};

TEST(Trace, Operations_GoToItsProgramInsteadOfADevice) {
  Trace trace("f");
  EXPECT_EQ(Trace::current(), &trace);
  Array x = trace.input(kPair), sum = add(x, x);
  EXPECT_TRUE(sum.is_tracer());
  EXPECT_EQ(sum.shape(), (Shape{2}));
  EXPECT_THROW(sum.to_host<float>(), TraceError);
  ir::Program program = trace.finish(std::span(&sum, 1));
  EXPECT_EQ(program.equations.size(), 1u);
  EXPECT_EQ(program.inputs.size(), 1u);
}

TEST(Trace, EachArrayFromOutside_BecomesOneInput) {
  Array outside = pair_of(1, 2), other = pair_of(3, 4);
  Trace trace("f");
  Array x = trace.input(kPair);
  Array sum = add(add(add(x, outside), other), outside);
  ir::Program program = trace.finish(std::span(&sum, 1));
  ASSERT_EQ(trace.captures().size(), 2u);
  EXPECT_EQ(internal::data_of(trace.captures()[0]), internal::data_of(outside));
  EXPECT_EQ(internal::data_of(trace.captures()[1]), internal::data_of(other));
  EXPECT_EQ(program.inputs.size(), 3u);
}

TEST(Trace, Nested_CapturesTheOuterTracers) {
  Trace outer("outer");
  Array x = outer.input(kPair);
  {
    Trace inner("inner");
    Array y = inner.input(kPair), sum = add(x, y);
    ir::Program program = inner.finish(std::span(&sum, 1));
    EXPECT_EQ(program.inputs.size(), 2u);
    ASSERT_EQ(inner.captures().size(), 1u);
    EXPECT_EQ(internal::data_of(inner.captures()[0]), internal::data_of(x));
    EXPECT_EQ(Trace::current(), &inner);
  }
  EXPECT_EQ(Trace::current(), &outer);
  EXPECT_TRUE(outer.captures().empty());
}

TEST(Trace, ALeakedTracer_IsAnErrorThatNamesItsFunction) {
  Array leaked;
  {
    Trace trace("first_function");
    leaked = trace.input(kPair);
  }
  Trace trace("second");
  try {
    add(leaked, leaked);
    FAIL() << "nothing was thrown";
  } catch (const TraceError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("f32[2] made in first_function"), HasSubstr("it has leaked"),
                                    HasSubstr("Return it from the function")));
  }
}

TEST(Operations, OutsideOfAnyTrace_AreComputed) {
  EXPECT_EQ(Trace::current(), nullptr);
  EXPECT_EQ(add(pair_of(1, 2), pair_of(10, 20)).to_host<float>(), (std::vector<float>{11, 22}));
}

}  // namespace
}  // namespace lockstep
