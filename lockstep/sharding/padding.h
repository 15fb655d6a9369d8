#pragma once

#include "lockstep/program/axis_env.h"
#include "lockstep/program/program.h"
#include "lockstep/sharding/uneven.h"

namespace lockstep::sharding {

/// Whether the program, or one that it holds, has a sharding_constraint whose axes do not divide a dimension.
bool needs_padding(const Program& program);

/// The same function, in which each value that such a constraint lays is padded behind its last element to
/// the next size that the axes divide, and stays so through operations whose sharding rule tells how: those
/// that keep the dimension, and sums over it, for which the padding becomes zeros. Others, and the program's
/// outputs, get the value without it, and so do values that go into a program that an equation holds or come
/// out of it: a loop's carry is put together after each step. So each device computes its part, where
/// otherwise all would compute the whole. Results in `uneven` get the shapes that stand there.
Program with_padding(const Program& program, const AxisEnv& axes, const UnevenResults& uneven = {});

}  // namespace lockstep::sharding
