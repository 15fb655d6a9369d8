#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"

/// What a training measures of itself, written where people and tools look. docs/metrics.md has the files.
namespace lockstep::metrics {

/// A number, or an array of one element.
class Value {
 public:
  template <Number T>
  Value(T number) : number_(static_cast<double>(number)) {}
  Value(Array array) : array_(std::move(array)) {}

  double number() const { return number_; }
  const Array& array() const { return array_; }  ///< not valid where it is a number

 private:
  double number_ = 0;
  Array array_;
};

/// What one call of log() has.
struct Entry {
  std::int64_t step = 0;
  double time = 0;  ///< seconds since 1970
  std::vector<std::pair<std::string, double>> values;
};

struct Options {
  /// Where the files go; it is made where it is missing. LOCKSTEP_LOG_DIR, which `lockstep run --log-dir`
  /// sets; none are written, if neither is given.
  std::string folder = {};

  /// Whether all processes write, and not process 0 only.
  bool all_processes = false;

  bool jsonl = true, tensorboard = true;
};

/// To be called before the first log(), if at all. Throws Error after it.
void configure(const Options& options, std::source_location where = std::source_location::current());

/// Writes the values of this step, as a line of JSON and an event for TensorBoard, and remembers them for
/// latest(). What an array holds is read as soon as it is computed, on CPU at once; until then it is kept,
/// and written by a later call, by flush() or at the program's end. So the call does not wait for the
/// devices, unless more than kMostUnread calls are unread: then it waits for the first of them. The array may
/// be donated or deleted after the call. Every process may call it; those that write no files only remember.
///
/// Files are written in the call, each line and event by one call of the system: a process that is killed
/// then leaves whole ones. Where they cannot be written, as on a full disk, that is one warning of the log,
/// what was begun is taken back, and the next call tries again. Throws ShapeError for an array of more or
/// fewer elements than one, DTypeError for complex ones, ShardingError for one that lies with other processes
/// only on a process that writes, TraceError within a traced function, Error for a name that is empty or
/// given twice, and what the computation of an array throws. May be called by several threads.
///   metrics::log(step, {{"loss", loss}, {"lr", 1e-3}});
void log(std::int64_t step, const std::vector<std::pair<std::string, Value>>& values,
         std::source_location where = std::source_location::current());
inline constexpr std::size_t kMostUnread = 64;

/// Waits for all values that are not computed yet, and writes them. Throws what their computations throw.
void flush();

/// The values of the last call whose arrays were computed, on this process. Does not block.
std::optional<Entry> latest();

/// Calls the function, in the order of the calls, with all that latest() comes to give; nullptr ends that. It
/// is called by the thread that logs, or asks for latest(), and must not call functions of this header.
void on_entry(std::function<void(const Entry&)> function);

}  // namespace lockstep::metrics
