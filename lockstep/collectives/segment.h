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

inline constexpr std::size_t kSmallBytes = 16 << 10;  ///< an input of up to this size is exchanged in one
                                                      ///< step
inline constexpr std::size_t kInlineBytes = 48;       ///< an input of up to this size is in the post itself
inline constexpr std::size_t kSingleCopyBytes = 1 << 20;  ///< an input of at least this size may be read in
                                                          ///< place
inline constexpr std::size_t kChunkBytes = 512 << 10;  ///< the part of a larger input that a member stages at
                                                       ///< a time
inline constexpr std::size_t kTextBytes = 1000;

/// A member's post: its part in operation number `operation`, and a description of that operation.
/// `operation` is written last. A member has two posts, used alternately.
struct alignas(64) Post {
  std::atomic<std::uint32_t> operation;
  std::atomic<std::uint64_t> signature;
  std::byte data[kInlineBytes];
};

/// The words of a member that other members read.
struct MemberWords {
  Post posts[2];
  alignas(64) std::atomic<std::uint32_t> progress;  ///< the number of steps done within large operations,
                                                    ///< over all of them
  std::atomic<std::uint32_t> cpu;                   ///< the CPU on which it was last seen, from 1
  alignas(64) std::atomic<std::uint32_t> text_operation;  ///< the operation that `text` describes; set on
                                                          ///< divergence; 0: the communicator is set up
  char text[kTextBytes];
  /// A digest of the list of devices as a process has it, which `text` says. It is in the words of the
  /// process's lowest device, which for this are in the order of the devices.
  std::atomic<std::uint64_t> list;
};

/// Writes the member's text, at most kTextBytes - 1 of it, and reads it. What says that it is there is
/// written afterwards.
void set_text(MemberWords& words, std::string_view text);
std::string text_of(const MemberWords& words);

struct SegmentHeader {
  std::uint32_t magic;
  std::uint32_t members;
  alignas(64) std::atomic<std::uint32_t> sleepers;  ///< the number of threads that sleep, or are about to
  alignas(64) std::atomic<std::uint32_t> wakes;  ///< the word on which they sleep: the last member to arrive
                                                 ///< increments it
};

/// The memory that the members of one communicator share: a header, each member's words, and each member's
/// buffers: two of kSmallBytes, two of kChunkBytes to stage its input, and two for the part of a chunk that
/// it reduces. New memory is zero, so nothing needs to be constructed. It belongs to no file system: it
/// disappears with the last process that maps it.
class Segment {
 public:
  /// The most members: a part of a chunk for each of them is a cache line.
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
