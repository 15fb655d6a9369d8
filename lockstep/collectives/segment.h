// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/file_descriptor.h"

namespace lockstep::collectives {

/// An input of up to this size is copied to the member's post or to a buffer beside it as a whole.
inline constexpr std::size_t kSmallBytes = 16 << 10;
/// An input of up to this size is in the post itself.
inline constexpr std::size_t kInlineBytes = 48;
/// An input of at least this size is read in place if that is possible, which saves the copy.
inline constexpr std::size_t kSingleCopyBytes = 8 << 10;
/// Larger inputs that are not read in place are copied to shared memory in chunks of this size.
inline constexpr std::size_t kChunkBytes = 512 << 10;
/// The size of MemberWords::text.
inline constexpr std::size_t kTextBytes = 1000;

/// What a member publishes when it begins an operation. It has two posts, for odd and for even operations.
struct alignas(64) Post {
  std::atomic<std::uint32_t> operation;  ///< the operation's number; written last, when the rest is valid
  std::atomic<std::uint64_t> signature;  ///< of the call, to compare with the other members'
  std::byte data[kInlineBytes];          ///< a tiny input, or the offsets of a large one and its output
};

/// The part of the segment that one member writes and all members read.
struct MemberWords {
  Post posts[2];
  /// The number of steps done after posts, in all operations.
  alignas(64) std::atomic<std::uint32_t> progress;
  /// The number of the CPU on which the member last ran, plus 1; 0: unknown.
  std::atomic<std::uint32_t> cpu;
  /// The number of the operation that `text` describes, in which signatures differ; 0: `text` is that of
  /// `list`.
  alignas(64) std::atomic<std::uint32_t> text_operation;
  char text[kTextBytes];
  /// While the communicator is set up: a digest of the order in which a process lists the devices; `text` is
  /// that list. A process writes them to the words of its lowest device; here words are in the order of the
  /// devices' numbers, as the processes may not agree on ranks.
  std::atomic<std::uint64_t> list;
};

/// Writes and reads a member's text, which is cut to kTextBytes - 1. Write what announces the text, such as
/// `text_operation`, after it.
void set_text(MemberWords& words, std::string_view text);
std::string text_of(const MemberWords& words);

struct SegmentHeader {
  std::uint32_t magic;
  std::uint32_t members;
  alignas(64) std::atomic<std::uint32_t> sleepers;  ///< the number of threads that sleep, or are about to
  alignas(64) std::atomic<std::uint32_t> wakes;  ///< the futex on which they sleep; the last member to arrive
                                                 ///< increments it and wakes them
};

/// The memory that the members of one communicator share: a header, the MemberWords of each member, and the
/// buffers of each member: two of kSmallBytes, two of kChunkBytes for chunks of its input (`staged`), and two
/// for its part of the reduced chunk (`reduced`). New memory is zero, so nothing needs to be constructed. It
/// belongs to no file system: it disappears with the last process that maps it.
class Segment {
 public:
  /// The maximal number of members: each has at least a cache line of a chunk to reduce.
  static constexpr int kMostMembers = kChunkBytes / 64;

  /// New memory for `members`. Its descriptor is sent to other processes and can be closed afterwards. Throws
  /// Error if there is no memory, or there are more than kMostMembers.
  static std::pair<Segment, FileDescriptor> create(int members);

  /// Maps the memory that another process created. Throws Error if it is not a segment for this number of
  /// members.
  static Segment open(const FileDescriptor& fd, int members);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(base_); }
  MemberWords& words(int rank) const;
  std::byte* small(int rank, unsigned slot) const;
  std::byte* staged(int rank, unsigned slot) const;
  std::byte* reduced(int rank, unsigned slot) const;

 private:
  Segment(const FileDescriptor& fd, int members);

  int members_;
  std::size_t bytes_ = 0;
  std::byte* base_ = nullptr;
};

}  // namespace lockstep::collectives
