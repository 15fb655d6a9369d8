// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/rewriter.h"

#include <gmock/gmock.h>

#include "lockstep/program/primitives/elementwise.h"

// With programs in equations: the tests of the passes.

namespace lockstep::ir {
namespace {

constexpr CallSite kSine{"train.cc", 3, "step"}, kCosine{"train.cc", 4, "step"};

/// sin(x) and cos(x), and their sum; the sine stands for a collective that the partitioner added.
Program waves() {
  Builder builder("waves");
  const Value x = builder.input({DType::kF32, {4}});
  const auto emit = [&](const Primitive& primitive, const CallSite& site, std::vector<Value> inputs) {
    const EquationsAt at(builder, site);
    return builder.emit(primitive, {}, inputs).front();
  };
  const Value sine = emit(sin_p(), kSine, {x}), cosine = emit(cos_p(), kCosine, {x});
  Program program = builder.finish(std::vector<Value>{emit(add_p(), {}, {sine, cosine}), sine});
  program.equations[0].origin = Origin::kPartitioner;
  program.equations[0].reason = "for the product";
  return program;
}

TEST(Rewriter, KeepingAllEquationsInOrder_ReturnsNoProgram) {
  const Program program = waves();
  Rewriter rewriter(program);
  for (std::size_t e = 0; e < 3; ++e) rewriter.keep(e);
  EXPECT_FALSE(rewriter.finish());
}

TEST(Rewriter, ReorderedEquations_KeepSiteOriginAndReason) {
  const Program program = waves();
  Rewriter rewriter(program);
  for (std::size_t e : {1U, 0U, 2U}) rewriter.keep(e);
  const std::optional<Program> result = rewriter.finish();
  ASSERT_TRUE(result);
  EXPECT_EQ(to_string(*result),
            "waves(a:f32[4])\n"
            "  b:f32[4] = cos a\n"
            "  c:f32[4] = sin a\n"
            "  d:f32[4] = add c b\n"
            "  return d c\n");
  const Equation &cosine = result->equations[0], &sine = result->equations[1];
  EXPECT_EQ(cosine.site.line, kCosine.line);
  EXPECT_EQ(cosine.origin, Origin::kProgram);
  EXPECT_EQ(sine.site.line, kSine.line);
  EXPECT_EQ(sine.origin, Origin::kPartitioner);
  EXPECT_EQ(sine.reason, "for the product");
}

TEST(Rewriter, AReplacementVariable_IsUsedByLaterEquationsAndOutputs) {
  const Program program = waves();
  Rewriter rewriter(program);
  rewriter.keep(0);
  rewriter.keep(1);
  const Var sine = program.outputs[1];
  const Value operands[] = {rewriter[sine]};
  rewriter.replace(sine, rewriter.add({.primitive = &neg_p()}, operands, program.aval(sine)));
  rewriter.keep(2);
  EXPECT_EQ(to_string(*rewriter.finish()),
            "waves(a:f32[4])\n"
            "  b:f32[4] = sin a\n"
            "  c:f32[4] = cos a\n"
            "  d:f32[4] = neg b\n"
            "  e:f32[4] = add d c\n"
            "  return e d\n");
}

TEST(Rewriter, LeavingOutAnEquation_ReturnsANewProgram) {
  Program program = waves();
  program.outputs.erase(program.outputs.begin());
  Rewriter rewriter(program);
  rewriter.keep(0);
  const std::optional<Program> result = rewriter.finish();
  ASSERT_TRUE(result);
  EXPECT_EQ(to_string(*result),
            "waves(a:f32[4])\n"
            "  b:f32[4] = sin a\n"
            "  return b\n");
  EXPECT_EQ(result->variables.size(), 2u);
}

}  // namespace
}  // namespace lockstep::ir
