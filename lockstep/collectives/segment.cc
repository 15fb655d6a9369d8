// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "lockstep/base/fail.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/memory_file.h"
#include "lockstep/base/text.h"

namespace lockstep::collectives {
namespace {

constexpr std::uint32_t kSegmentMagic = 0x4c53'5347;
constexpr std::size_t kPage = 4096;

constexpr std::size_t pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

constexpr std::size_t kHeaderBytes = pages(sizeof(SegmentHeader));
constexpr std::size_t kWordsBytes = pages(sizeof(MemberWords));
// The part of a chunk that one of two members reduces is its half, rounded up to a cache line.
constexpr std::size_t kReducedBytes = pages(kChunkBytes / 2 + 64);
constexpr std::size_t kBufferBytes = 2 * (kSmallBytes + kChunkBytes + kReducedBytes);

std::size_t segment_bytes(int members) { return kHeaderBytes + members * (kWordsBytes + kBufferBytes); }

}  // namespace

void set_text(MemberWords& words, std::string_view text) {
  std::strncpy(words.text, std::string(first_bytes(text, kTextBytes - 1)).c_str(), kTextBytes - 1);
}

std::string text_of(const MemberWords& words) {
  return std::string(words.text, strnlen(words.text, kTextBytes));
}

std::pair<Segment, FileDescriptor> Segment::create(int members) {
  if (members > kMostMembers) {
    fail("{} devices of one host cannot be in one group: expected at most {}", members, kMostMembers);
  }
  FileDescriptor fd(make_reserved_memory_file("lockstep", segment_bytes(members), MFD_ALLOW_SEALING));
  if (!fd || fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    fail("cannot make {} bytes of memory to share between processes: {}", segment_bytes(members),
         describe_error(errno));
  }
  Segment segment(fd, members);
  SegmentHeader& header = segment.header();
  header.magic = kSegmentMagic;
  header.members = static_cast<std::uint32_t>(members);
  return {std::move(segment), std::move(fd)};
}

Segment Segment::open(const FileDescriptor& fd, int members) {
  struct stat status {};
  if (fstat(fd.get(), &status) != 0 || static_cast<std::size_t>(status.st_size) != segment_bytes(members)) {
    fail(
        "the shared memory that a peer handed over is not of the size that {} members need ({} bytes, "
        "expected {}): are all processes built from the same version?",
        members, status.st_size, segment_bytes(members));
  }
  Segment segment(fd, members);
  const SegmentHeader& header = segment.header();
  if (header.magic != kSegmentMagic || header.members != static_cast<std::uint32_t>(members)) {
    fail("the shared memory that a peer handed over is of another version of Lockstep");
  }
  return segment;
}

Segment::Segment(const FileDescriptor& fd, int members) : members_(members), bytes_(segment_bytes(members)) {
  void* base = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) fail("cannot map {} bytes of shared memory: {}", bytes_, describe_error(errno));
  base_ = static_cast<std::byte*>(base);
  madvise(base, bytes_, MADV_DONTDUMP);  // a core file would get a page for each hole
}

Segment::Segment(Segment&& other) noexcept
    : members_(other.members_), bytes_(other.bytes_), base_(std::exchange(other.base_, nullptr)) {}

Segment::~Segment() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

MemberWords& Segment::words(int rank) const {
  return *reinterpret_cast<MemberWords*>(base_ + kHeaderBytes + rank * kWordsBytes);
}

std::byte* Segment::small(int rank, unsigned slot) const {
  return base_ + kHeaderBytes + members_ * kWordsBytes + rank * kBufferBytes + slot * kSmallBytes;
}

std::byte* Segment::staged(int rank, unsigned slot) const {
  return small(rank, 0) + 2 * kSmallBytes + slot * kChunkBytes;
}

std::byte* Segment::reduced(int rank, unsigned slot) const { return staged(rank, 2) + slot * kReducedBytes; }

}  // namespace lockstep::collectives
