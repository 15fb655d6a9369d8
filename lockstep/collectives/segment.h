#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "lockstep/collectives/file_descriptor.h"

namespace lockstep::collectives {

inline constexpr std::size_t kSmallBytes = 16 << 10;      ///< An input up to this is exchanged in one step.
inline constexpr std::size_t kInlineBytes = 48;           ///< An input up to this travels with its flag.
inline constexpr std::size_t kSingleCopyBytes = 1 << 20;  ///< An input from this on may be read where it is.
inline constexpr std::size_t kChunkBytes = 512 << 10;     ///< What a member stages at a time of a larger one.
inline constexpr std::size_t kTextBytes = 1000;

/// What a member has posted: its part in operation number `operation`, and what it takes that operation to
/// be. `operation` is written last. A member has two posts, used in turn.
struct alignas(64) Post {
  std::atomic<std::uint32_t> operation;
  std::atomic<std::uint64_t> signature;
  std::byte data[kInlineBytes];
};

/// The words of one member that the others read.
struct MemberWords {
  Post posts[2];
  alignas(64) std::atomic<std::uint32_t> progress;  ///< Steps done within large operations, over all of them.
  std::atomic<std::uint32_t> cpu;                   ///< Where it was last seen to run, from 1.
  alignas(64)
      std::atomic<std::uint32_t> text_operation;  ///< The operation that `text` describes; set on divergence.
  char text[kTextBytes];
};

struct SegmentHeader {
  std::uint32_t magic;
  std::uint32_t members;
  alignas(64) std::atomic<std::uint32_t> sleepers;  ///< How many sleep, or are about to.
  alignas(64) std::atomic<std::uint32_t> wakes;     ///< What they sleep on: the last to arrive raises it.
};

/// The memory that the members of one communicator share: a header, each member's words, and each member's
/// buffers: two of kSmallBytes, two of kChunkBytes to stage its input, and two for the part of a chunk that
/// it reduces. Fresh memory is zero, so nothing needs to be constructed. It belongs to no file system: it is
/// gone when the last process that maps it is.
class Segment {
 public:
  /// New memory for `members`, to be handed to other processes by its descriptor, which is not needed longer.
  /// Throws Error where there is none.
  static std::pair<Segment, FileDescriptor> create(int members);

  /// Maps the memory that another process created. Throws Error where it is not a segment of so many members.
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
