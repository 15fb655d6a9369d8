// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"

/// Files in folders and in object stores, through one interface, which checkpoints and data
/// use.
namespace lockstep::storage {

/// A file that is open for reading. May be used by several threads at a time.
class Reader {
 public:
  virtual ~Reader() = default;

  /// The path or URL, for messages.
  virtual const std::string& url() const = 0;

  /// In bytes, when it was opened.
  virtual std::uint64_t size() const = 0;

  /// Fills `into` with the bytes from `offset` on. Blocks. Throws StorageError if they cannot be read, or the
  /// file is too short.
  virtual void read(std::uint64_t offset, std::span<std::byte> into) const = 0;

  /// As `read`, for bytes that will not be read again soon on this machine. Reads of a local file of a
  /// megabyte or more that begin at a page in the file and in memory bypass the page cache, which would take
  /// half of the processor's time.
  virtual void read_once(std::uint64_t offset, std::span<std::byte> into) const { read(offset, into); }

  /// The whole file mapped into memory, read-only, beginning at a page. Null if this is not possible or not
  /// safe: object stores, network mounts, empty files.
  virtual std::shared_ptr<const std::byte> map() const = 0;
};

/// Memory that begins at a page, for read_once.
std::unique_ptr<std::byte, void (*)(void*)> page_aligned_memory(std::size_t bytes);

/// A file that is being written, from beginning to end, by one thread. It is valid only after `finish` has
/// returned. If the object is destroyed before, the file is removed as far as possible.
class Writer {
 public:
  virtual ~Writer() = default;
  virtual const std::string& url() const = 0;

  /// Appends. Blocks. Throws StorageError; do not write after that.
  virtual void write(std::span<const std::byte> bytes) = 0;

  /// Blocks until all written bytes are durable, even after a power loss. Throws StorageError if they may not
  /// be. In a folder the file's name is durable only after `publish`.
  virtual void finish() = 0;
};

/// An entry of a folder.
struct Entry {
  std::string name;  ///< without the folder
  bool is_folder = false;
  std::uint64_t bytes = 0;  ///< of a file
  bool is_link = false;     ///< a symbolic link to that
  bool operator==(const Entry&) const = default;
};

/// Where the files of an attempt are created, and their names in the published folder.
struct Attempt {
  std::string folder;  ///< they are created in
  std::string prefix;  ///< of their names in the published folder: "" in folders, "NONCE/" in object stores
};

/// A folder of a file system, or a prefix of an object store's bucket, with everything below it. Names are
/// relative to it, with "/" between their parts. Several threads and several processes may use it at the same
/// time. Every call blocks and throws StorageError if it fails.
class Store {
 public:
  /// Ends the name that a manifest gets when its folder begins to be removed: "manifest.json.removed".
  static constexpr const char* kRemoved = ".removed";

  virtual ~Store() = default;

  /// The path of the file or folder of this name, for messages.
  virtual std::string url(const std::string& name) const = 0;

  virtual std::unique_ptr<Reader> open(const std::string& name) const = 0;

  /// Whether there is a file of this name. Throws if this cannot be determined.
  virtual bool exists(const std::string& name) const = 0;

  /// The entries of the folder ("" is the store's own), sorted by name. Empty if there is no such folder.
  virtual std::vector<Entry> list(const std::string& folder) const = 0;

  /// A new file. Throws if the file exists, as far as the store can tell. Its parent folders must exist.
  virtual std::unique_ptr<Writer> create(const std::string& name) = 0;

  /// Begins an attempt to publish a folder. The nonce distinguishes attempts: a used one throws.
  virtual Attempt begin(const std::string& folder, const std::string& nonce) = 0;

  /// Whether the attempt, of this process or another one, is one of this store's.
  virtual bool has(const Attempt& attempt) const = 0;

  /// Ends an attempt whose process may still be working on it: publishing it throws from now on. Returns
  /// where its files are, for `discard`; nullopt if it is published as `manifest`, or gone.
  virtual std::optional<Attempt> end(const Attempt& attempt, const std::string& manifest) = 0;

  /// Publishes the attempt: `folder` then contains, atomically and durably, the files that were created and
  /// finished in the attempt, and a file `manifest` with these bytes. Returns false and changes nothing if
  /// `folder` exists already. Of several attempts, also of several processes, exactly one gets true. Throws
  /// if the attempt was ended, and if it is unknown whether it was published: it was, if `manifest` exists
  /// and contains the nonce.
  virtual bool publish(const Attempt& attempt, const std::string& folder, const std::string& manifest,
                       std::string_view bytes) = 0;

  /// Removes the attempt's files: those with these names, and what the store itself made for it. Other files
  /// stay, and so does their folder.
  virtual void discard(const Attempt& attempt, const std::vector<std::string>& names) = 0;

  /// Removes a published folder: first, atomically, its manifest, which is called `manifest`.removed from
  /// then on, so that the rest is not mistaken for a complete folder; then the files with these names (as in
  /// the manifest), and that record last. Repeated after an interruption, it goes on. Takes no space on a
  /// full disk. Other files stay, and so does their folder. Of a symbolic link to a folder the link is
  /// removed.
  /// If `only` is given, a manifest with other bytes, which has been published since, stays with its files.
  virtual void remove(const std::string& folder, const std::string& manifest,
                      const std::vector<std::string>& names,
                      const std::optional<std::string>& only = std::nullopt) = 0;

  /// Removes these files of the folder, those that are there.
  virtual void remove_files(const std::string& folder, const std::vector<std::string>& names) = 0;
};

/// The object store for "s3://bucket/prefix", otherwise the folder of that path, which is created if it does
/// not exist and `make` is set. Throws StorageError for what `locate` (url.h) refuses, and if it cannot be
/// reached or is not a folder.
std::unique_ptr<Store> open_store(const std::string& url, bool make = false);

/// Opens one file by its path or URL.
std::unique_ptr<Reader> open_file(const std::string& url);

/// Splits "folder/name" into the folder, for open_store, and the name; trailing slashes are ignored. Throws
/// StorageError for what `locate` refuses, and if there is no name: "s3://bucket", "/", "..".
std::pair<std::string, std::string> split_url(const std::string& url);

/// All bytes of a file. Throws StorageError, also if it has more than `limit` bytes.
std::string read_whole(const Reader& file, std::uint64_t limit = std::uint64_t{1} << 32);

/// All bytes of the file of this name; nullopt if there is none.
std::optional<std::string> read_if_there(const Store& store, const std::string& name);

}  // namespace lockstep::storage
