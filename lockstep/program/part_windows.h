// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep::ir {

/// For a dimension that is split evenly: device p needs `count` elements from position first + p * step on.
/// They may be outside of the dimension, or, with `wraps`, continue at its other end.
struct PartWindows {
  std::int64_t first, step, count;
  bool wraps = false;

  std::int64_t begin(std::int64_t device) const { return first + device * step; }
};

/// Elements that one device has and another one needs, by their positions in the whole dimension; `start` is
/// relative to the part of the first device.
struct WindowSegment {
  std::int64_t from, to, start, begin, end;
};

/// The segments of one permute: at most one from each device, and at most one to each.
struct WindowRound {
  std::vector<WindowSegment> segments;
  std::int64_t length = 0;  ///< of the longest segment; each device sends this many elements
};

/// The elements that a device receives from others along a dimension, and in how many collectives.
struct Exchanged {
  std::int64_t elements = 0, collectives = 0;
};

/// How the devices get the elements of their windows.
struct WindowPlan {
  std::vector<WindowRound> rounds;
  bool gathers = false;  ///< an all-gather moves no more than the permutes
  Exchanged exchanged;
};

/// The plan for `parts` devices that have `size` elements each.
WindowPlan plan_windows(const PartWindows& windows, std::int64_t parts, std::int64_t size);

}  // namespace lockstep::ir
