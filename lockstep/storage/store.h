#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"

/// Files in folders and in object stores, by one interface: what checkpoints and data are read from and
/// written to.
namespace lockstep::storage {

/// A file that is open for reading. May be used by several threads at a time.
class Reader {
 public:
  virtual ~Reader() = default;

  /// The path or URL, for messages.
  virtual const std::string& url() const = 0;

  /// In bytes, when it was opened.
  virtual std::uint64_t size() const = 0;

  /// Fills `into` with the bytes from `offset` on. Blocks. Throws StorageError where they cannot be read, or
  /// the file ends before.
  virtual void read(std::uint64_t offset, std::span<std::byte> into) const = 0;

  /// As `read`, for bytes that nobody on this machine reads again soon. What of a local file is a megabyte or
  /// more, and begins at a page in the file and in memory, passes by the page cache, which takes half of the
  /// processor's time.
  virtual void read_once(std::uint64_t offset, std::span<std::byte> into) const { read(offset, into); }

  /// The whole file in memory that is read when it is touched, and may not be written; it begins at a page.
  /// Null where this is not possible or not safe: object stores, network mounts, empty files.
  virtual std::shared_ptr<const std::byte> map() const = 0;
};

/// Memory that begins at a page, for read_once.
std::unique_ptr<std::byte, void (*)(void*)> page_aligned_memory(std::size_t bytes);

/// A file that is being written, from its beginning to its end, by one thread. It is not to be relied on
/// before `finish` has returned. Destroyed before, it is taken away again as far as that is possible.
class Writer {
 public:
  virtual ~Writer() = default;
  virtual const std::string& url() const = 0;

  /// Appends. Blocks. Throws StorageError; nothing may be written afterwards.
  virtual void write(std::span<const std::byte> bytes) = 0;

  /// Blocks until all that was written is there for good, power losses included. Throws StorageError where it
  /// may not be. In a folder the file's name is there for good only after `publish`.
  virtual void finish() = 0;
};

/// What stands in a folder.
struct Entry {
  std::string name;  ///< without the folder
  bool is_folder = false;
  std::uint64_t bytes = 0;  ///< of a file
  bool operator==(const Entry&) const = default;
};

/// Where the files of an attempt at a folder go, and what they are called in it once it is published.
struct Attempt {
  std::string folder;  ///< they are created in
  std::string prefix;  ///< of their names in the published folder: "" in folders, "NONCE/" in object stores
};

/// A folder of a file system, or a prefix of an object store's bucket, with all below it. Names are relative
/// to it, with "/" between their parts. May be used by several threads at a time; several processes may use
/// the same. Every call blocks and throws StorageError where it fails.
class Store {
 public:
  virtual ~Store() = default;

  /// Of the file or folder of this name, for messages.
  virtual std::string url(const std::string& name) const = 0;

  virtual std::unique_ptr<Reader> open(const std::string& name) const = 0;

  /// Whether there is a file of this name. Throws where that cannot be found out.
  virtual bool exists(const std::string& name) const = 0;

  /// What stands in the folder ("" for the store's own), by name. Nothing where there is no such folder.
  virtual std::vector<Entry> list(const std::string& folder) const = 0;

  /// A new file. Throws where there is one, as far as the store can tell. Folders on the way must be there.
  virtual std::unique_ptr<Writer> create(const std::string& name) = 0;

  /// Begins an attempt to publish a folder. The nonce tells attempts apart: one that was used before throws.
  virtual Attempt begin(const std::string& folder, const std::string& nonce) = 0;

  /// Publishes the attempt: `folder` then has, at once and for good, what was created and finished in the
  /// attempt, and a file `manifest` with these bytes. False, and nothing has changed, where `folder` is there
  /// already. Of several attempts, of several processes, one gets true. Throws where it may or may not have
  /// been published: `manifest` says so, if it is there and holds the nonce.
  virtual bool publish(const Attempt& attempt, const std::string& folder, const std::string& manifest,
                       std::string_view bytes) = 0;

  /// Takes the attempt's files away: those with these names, and what else the store itself made for it.
  /// Others stay, and their folder with them.
  virtual void discard(const Attempt& attempt, const std::vector<std::string>& names) = 0;

  /// Takes a published folder away: first, at once, its manifest, so that nobody takes what is left for
  /// whole, then the files of these names (as the manifest has them). Others stay, and their folder with
  /// them.
  virtual void remove(const std::string& folder, const std::string& manifest,
                      const std::vector<std::string>& names) = 0;
};

/// Of "s3://bucket/prefix" an object store's, of anything else the folder of that path, which is made where
/// it is missing if `make` says so. Throws StorageError where it cannot be reached or is no folder.
std::unique_ptr<Store> open_store(const std::string& url, bool make = false);

/// Opens one file by its path or URL.
std::unique_ptr<Reader> open_file(const std::string& url);

/// "folder/name" as the folder, "." where there is none, and the name; slashes at the end do not count.
std::pair<std::string, std::string> split_url(std::string url);

/// All bytes of a file. Throws StorageError, also where it has more than `limit` bytes.
std::string read_whole(const Reader& file, std::uint64_t limit = std::uint64_t{1} << 32);

}  // namespace lockstep::storage
