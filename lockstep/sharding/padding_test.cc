// SPDX-License-Identifier: Apache-2.0
// Values that a constraint lays over axes that do not divide them.

#include "lockstep/sharding/padding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/sharding/communication.h"
#include "lockstep/sharding/partitioner.h"

namespace lockstep::sharding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const ir::AxisEnv kAxes({{"x", 4}});

ir::Value over_x(const ir::Value& value) {
  return ir::lax::sharding_constraint(value, {{{"x"}}, {"x"}, {4}, {0, 1, 2, 3}, {}});
}

ir::Program program_of(const std::function<ir::Value(ir::Value)>& function) {
  ir::Builder builder("f");
  const ir::Value outputs[] = {function(builder.input({DType::kF32, {6, 3}}))};
  return builder.finish(outputs);
}

std::vector<std::string> collectives(const Partitioned& p) {
  std::vector<std::string> all;
  for (const CommunicationLine& line : communication(p.program, kAxes))
    all.push_back(line.kind + " " + to_string(p.program.aval(p.program.equations[line.equation].outputs[0])));
  return all;
}

TEST(Padding, IsKeptByElementwiseOperations_AndRemovedAtTheEnd) {
  const ir::Program f = program_of([](ir::Value x) {
    ir::Value y = over_x(x);
    return ir::lax::mul(ir::lax::sin(y), y);
  });
  ASSERT_TRUE(needs_padding(f));
  EXPECT_EQ(to_string(partition(f, {kAxes, {P()}, {P()}}).program),
            "f(a:f32[6,3])\n"
            "  b:f32[] = full[value=0.0 dtype=f32 shape=[] weak_type=false]\n"
            "  c:f32[8,3] = pad[low=[0,0] high=[2,0] interior=[0,0]] a b\n"
            "  d:i32[] = axis_index[axes=(x)]\n"
            "  e:i32[] = full[value=2 dtype=i32 shape=[] weak_type=false]\n"
            "  f:i32[] = mul d e\n"
            "  g:i32[] = full[value=0 dtype=i32 shape=[] weak_type=false]\n"
            "  h:f32[2,3] = dynamic_slice[slice_sizes=[2,3]] c f g\n"
            "  i:f32[2,3] = sin h\n"
            "  j:f32[2,3] = mul i h\n"
            "  k:f32[8,3] = all_gather[axes=(x) axis_size=4 dimension=0] j\n"
            "  l:f32[6,3] = slice[start_indices=[0,0] limit_indices=[6,3] strides=[1,1]] k\n"
            "  return l\n");
}

TEST(Padding, AConstant_IsMadeInThePaddedShape) {
  const ir::Program f =
      program_of([](ir::Value x) { return ir::lax::add(over_x(x), ir::lax::full_like(x, 1)); });
  const std::string text = to_string(with_padding(f, kAxes));
  EXPECT_THAT(text, HasSubstr("f32[8,3] = full[value=1"));
  EXPECT_EQ(text.find("pad["), text.rfind("pad[")) << "only the argument is padded:\n" << text;
}

TEST(Padding, ABroadcast_IsMadeInThePaddedShape) {
  const ir::Program f = program_of([](ir::Value x) {
    const ir::Value number = ir::lax::full(x, ir::Scalar::of(2.0), DType::kF32, {});
    return ir::lax::reduce_sum(ir::lax::mul(over_x(x), ir::lax::broadcast_in_dim(number, {6, 3}, {})), {0});
  });
  const std::string text = to_string(with_padding(f, kAxes));
  EXPECT_THAT(text, HasSubstr("f32[8,3] = broadcast_in_dim[shape=[8,3] broadcast_dimensions=[]]"));
  EXPECT_EQ(text.find("pad["), text.rfind("pad[")) << "only the argument is padded:\n" << text;
  EXPECT_THAT(text, HasSubstr("select")) << "the sum must not contain the padding";
  // Along a dimension in which it has elements of its own, it is padded.
  const ir::Program g = program_of([](ir::Value x) {
    const ir::Value rows = ir::lax::reduce_sum(x, {1});
    return ir::lax::mul(over_x(x), ir::lax::broadcast_in_dim(rows, {6, 3}, {0}));
  });
  EXPECT_THAT(to_string(with_padding(g, kAxes)), Not(HasSubstr("broadcast_in_dim[shape=[8,3]")));
}

TEST(Padding, IsZeroInSumsAndProducts) {
  const ir::Program f =
      program_of([](ir::Value x) { return ir::lax::reduce_sum(ir::lax::exp(over_x(x)), {0}); });
  const Partitioned p = partition(f, {kAxes, {P()}, {P()}});
  EXPECT_THAT(collectives(p), ElementsAre("all-reduce f32[3]"));
  const ir::Program g = program_of([](ir::Value x) {
    ir::Value y = ir::lax::exp(over_x(x));
    return ir::lax::dot_general(y, y, {{0}, {0}, {}, {}});
  });
  EXPECT_THAT(collectives(partition(g, {kAxes, {P()}, {P()}})), ElementsAre("all-reduce f32[3,3]"));
}

TEST(Padding, IsRemovedBeforeOtherOperations) {
  const ir::Program f =
      program_of([](ir::Value x) { return ir::lax::reduce_max(ir::lax::exp(over_x(x)), {0}); });
  EXPECT_THAT(collectives(partition(f, {kAxes, {P()}, {P()}})), ElementsAre("all-gather f32[8,3]"));
}

TEST(Padding, IsNotAddedWhereTheAxesDivide) {
  ir::Builder builder("f");
  const ir::Value outputs[] = {over_x(builder.input({DType::kF32, {8, 3}}))};
  EXPECT_FALSE(needs_padding(builder.finish(outputs)));
}

}  // namespace
}  // namespace lockstep::sharding
