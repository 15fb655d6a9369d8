// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/function.h"

/// Metrics of a training run, written as JSON lines and for TensorBoard. docs/metrics.md describes the files.
namespace lockstep::metrics {

/// A number, or an array of one element.
class Value {
 public:
  template <Number T>
  Value(T number) : number_(static_cast<double>(number)) {}
  Value(Array array) : array_(std::move(array)) {}

  double number() const { return number_; }
  const Array& array() const { return array_; }  ///< not valid if it is a number

 private:
  double number_ = 0;
  Array array_;
};

/// The values of one call of log().
struct Entry {
  std::int64_t step = 0;
  double time = 0;  ///< seconds since 1970
  std::vector<std::pair<std::string, double>> values;
};

struct Options {
  /// The folder for the files, in a file system, created if it does not exist. Default: LOCKSTEP_LOG_DIR,
  /// which `lockstep run --log-dir` sets. Without either no files are written.
  std::string folder = {};

  /// Whether all processes write, instead of only process 0.
  bool all_processes = false;

  bool jsonl = true, tensorboard = true;
};

/// Call it before the first log(). Throws Error after that, and for a folder in an object store.
void configure(const Options& options, std::source_location where = std::source_location::current());

/// Writes the values of this step, as a line of JSON and an event for TensorBoard, and keeps them for
/// latest(). An array is read when it has been computed, on CPU at once. Until then it is kept, and written
/// by a later call, by flush() or at the program's end. So the call does not wait for devices, unless more
/// than kMostUnread calls are pending: then it waits for the first of them. The array may be donated or
/// deleted after the call. Every process may call it; a process that writes no files only keeps the values.
///
/// Files are written in the call, each line and event by one system call, so a process that is killed leaves
/// complete ones. If they cannot be written, for example on a full disk, this is logged as one warning, a
/// partial line is removed, and the next call tries again. Throws ShapeError for an array with more or fewer
/// elements than one, DTypeError for complex numbers, ShardingError for an array that a writing process does
/// not hold, TraceError within a traced function, Error for a name that is empty or repeated, and what the
/// computation of an array throws. May be called by several threads.
///   metrics::log(step, {{"loss", loss}, {"lr", 1e-3}});
void log(std::int64_t step, const std::vector<std::pair<std::string, Value>>& values,
         std::source_location where = std::source_location::current());
inline constexpr std::size_t kMostUnread = 64;

/// Waits for all pending values and writes them. Throws what their computations throw.
void flush();

/// The values of the last call whose arrays were computed, on this process. Does not block.
std::optional<Entry> latest();

/// Sets a function that is called with each entry that latest() will return, in order; nullptr removes it. It
/// is called by the thread that calls log() or latest(), and must not call functions of this header.
void on_entry(std::function<void(const Entry&)> function);

}  // namespace lockstep::metrics
