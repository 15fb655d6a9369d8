#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep {

/// Of a dimension that is split evenly: device p needs `count` elements, from first + p * step on. They may
/// be outside of it, or, where `wraps`, go on at its other end.
struct PartWindows {
  std::int64_t first, step, count;
  bool wraps = false;

  std::int64_t begin(std::int64_t device) const { return first + device * step; }
};

/// Elements that one device has and another one needs, by their places in the whole dimension; `start` is
/// that of the first device's part.
struct WindowSegment {
  std::int64_t from, to, start, begin, end;
};

/// What one permute carries: from each device at most one segment, and to each at most one.
struct WindowRound {
  std::vector<WindowSegment> segments;
  std::int64_t length = 0;  ///< of the longest segment; each device sends as much
};

/// What a device receives of others along a dimension.
struct Exchanged {
  std::int64_t elements = 0, collectives = 0;
};

/// How the devices get what their windows need.
struct WindowPlan {
  std::vector<WindowRound> rounds;
  bool gathers = false;  ///< an all-gather moves no more than the permutes
  Exchanged exchanged;
};

/// `parts` devices have `size` elements each.
WindowPlan plan_windows(const PartWindows& windows, std::int64_t parts, std::int64_t size);

}  // namespace lockstep
