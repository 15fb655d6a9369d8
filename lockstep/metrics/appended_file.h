#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep::metrics {

/// A file that records are added to, each whole or not at all. To be used by one thread, and by one process.
class AppendedFile {
 public:
  /// Opens the file, which is made where it is missing, with the folders above it. With `lines` what stands
  /// behind its last newline is cut off: a line that a process has begun. Throws Error, which says the file
  /// and why.
  AppendedFile(std::filesystem::path path, bool lines);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  /// Adds the record by one call of the system, where that takes it whole. Where there is an error, what came
  /// to the file of it is taken back, and Error thrown, which says the file and why.
  void append(std::string_view record);

  const std::filesystem::path& path() const { return path_; }

 private:
  [[noreturn]] void refuse(int error) const;
  void cut_after_last_line();

  const std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace lockstep::metrics
