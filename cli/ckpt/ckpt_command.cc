// SPDX-License-Identifier: Apache-2.0
#include "cli/ckpt/ckpt_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cli/base/words.h"
#include "lockstep/array/print_elements.h"
#include "lockstep/base/amount.h"
#include "lockstep/base/cpp_type.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/progress.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/export.h"
#include "lockstep/checkpoint/opened.h"
#include "lockstep/checkpoint/step_folder.h"
#include "lockstep/storage/store.h"

namespace lockstep::cli {
namespace {

using checkpoint::ArrayInfo;
using checkpoint::Manifest;
using checkpoint::Opened;

constexpr int kDiffers = 1, kCannot = 2;
constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

/// Writes a line to standard output. It may hold names from outside.
void print_line(const std::string& line) { std::printf("%s\n", shown(line, kNoLimit).c_str()); }

void print_table(std::vector<std::vector<std::string>> rows, std::string_view sides) {
  std::fputs(aligned(std::move(rows), sides).c_str(), stdout);
}

std::uint64_t array_bytes(const Manifest& manifest) {
  std::uint64_t sum = 0;
  for (const auto& [path, array] : manifest.arrays) sum += checkpoint::bytes_of(array);
  return sum;
}

/// Whether the work takes long enough to need a progress bar.
bool takes_long(std::uint64_t bytes) { return bytes >= std::uint64_t{256} << 20; }

std::string name_of(const std::string& path) { return path.empty() ? "(the root)" : path; }

/// The folder of a run, with steps; null where the URL is something else.
std::unique_ptr<storage::Store> run_folder(const std::string& url) {
  std::unique_ptr<storage::Store> store;
  if (!checkpoint::ending_of_file(url).empty()) return nullptr;
  store = storage::open_store(url);
  if (store->exists(checkpoint::kManifestName)) return nullptr;
  return checkpoint::published_steps(*store).empty() && checkpoint::leftovers(*store).empty() &&
                 checkpoint::half_removed_steps(*store).empty()
             ? nullptr
             : std::move(store);
}

std::string url_of_step(const std::string& run, std::int64_t step) {
  return run + (run.ends_with('/') ? "" : "/") + checkpoint::step_name(step);
}

void say_error(const std::exception& error) { say("lockstep ckpt", error.what()); }

/// Returns the status: a damaged step does not hide the others.
int list_run(const storage::Store& store, const std::string& url) {
  int status = 0;
  std::vector<std::vector<std::string>> rows{{"step", "arrays", "bytes", "processes", "saved", "metric"}};
  for (std::int64_t step : checkpoint::published_steps(store)) {
    try {
      const Manifest manifest = Opened::open(url_of_step(url, step))->manifest();
      rows.push_back({std::to_string(step), std::to_string(manifest.arrays.size()),
                      amount_of_bytes(array_bytes(manifest)), std::to_string(manifest.num_processes),
                      manifest.created, manifest.metric ? fmt::format("{:g}", *manifest.metric) : ""});
    } catch (const std::exception& error) {
      rows.push_back({std::to_string(step), "", "", "", "damaged", ""});
      say_error(error);
      status = kDiffers;
    }
  }
  print_table(std::move(rows), "rrrrlr");
  for (const checkpoint::Leftover& leftover : checkpoint::leftovers(store))
    print_line("not ended: " + store.url(leftover.attempt.folder));
  for (std::int64_t step : checkpoint::half_removed_steps(store))
    print_line("half removed: " + store.url(checkpoint::step_name(step)));
  return status;
}

void list_checkpoint(const std::string& url) {
  const Manifest manifest = Opened::open(url)->manifest();
  std::vector<std::vector<std::string>> rows{{"path", "array", "bytes", "parts"}};
  for (const auto& [path, array] : manifest.arrays) {
    rows.push_back({name_of(path), checkpoint::describe(array), amount_of_bytes(checkpoint::bytes_of(array)),
                    std::to_string(array.parts.size())});
  }
  for (const auto& [path, value] : manifest.values)
    rows.push_back({name_of(path), checkpoint::to_string(value), "", ""});
  print_table(std::move(rows), "llrr");
  print_line(fmt::format("{} arrays, {}, in {} files{}", manifest.arrays.size(),
                         amount_of_bytes(array_bytes(manifest)), manifest.files.size(),
                         manifest.created.empty() ? ""
                                                  : fmt::format("; saved {} by {} processes",
                                                                manifest.created, manifest.num_processes)));
}

int list(const std::string& url) {
  if (const auto store = run_folder(url)) return list_run(*store, url);
  list_checkpoint(url);
  return 0;
}

std::vector<std::byte> read_array(const Opened& opened, const std::string& path, const ArrayInfo& info) {
  opened.check_files(path, checkpoint::whole(info.shape));
  std::vector<std::byte> bytes(checkpoint::bytes_of(info));
  opened.read({{path, checkpoint::whole(info.shape), bytes.data()}});
  return bytes;
}

int print(const std::string& url, const std::string& path) {
  const auto opened = Opened::open(url);
  const auto value = opened->manifest().values.find(path);
  if (value != opened->manifest().values.end()) {
    print_line(checkpoint::to_string(value->second));
    return 0;
  }
  const ArrayInfo& info = opened->array(path);
  const std::vector<std::byte> bytes = read_array(*opened, path, info);
  print_line(checkpoint::describe(info));
  std::printf("%s\n", elements_str(bytes.data(), *info.dtype, info.shape).c_str());
  return 0;
}

void verify_checkpoint(const std::string& url) {
  const auto opened = Opened::open(url);
  const std::uint64_t total = array_bytes(opened->manifest());
  std::uint64_t done = 0;
  {
    ProgressBar progress(shown(url), static_cast<std::int64_t>(total), takes_long(total),
                         ProgressBar::Unit::kBytes);
    opened->verify([&](std::uint64_t bytes) {
      done += bytes;
      progress.update(static_cast<std::int64_t>(done));
    });
  }
  const bool has_sums = !opened->manifest().nonce.empty();
  print_line(fmt::format("{}: {}, {}", url, has_sums ? "whole" : "readable; it has no checksums",
                         amount_of_bytes(done)));
}

int verify(const std::string& url) {
  std::vector<std::string> urls;
  if (const auto store = run_folder(url)) {
    for (std::int64_t step : checkpoint::published_steps(*store)) urls.push_back(url_of_step(url, step));
  } else {
    urls.push_back(url);
  }
  int status = 0;
  for (const std::string& each : urls) {
    try {
      verify_checkpoint(each);
    } catch (const CheckpointError& error) {
      say_error(error);
      status = std::max(status, kDiffers);
    } catch (const std::exception& error) {
      say_error(error);
      status = kCannot;
    }
  }
  return status;
}

double number_at(const std::byte* bytes, DType dtype, std::size_t i) {
  // The bytes of damaged bools differ, too.
  if (dtype == DType::kBool) dtype = DType::kU8;
  return with_element(dtype, bytes + i * size_of(dtype), []<class T>(T number) {
    if constexpr (std::is_arithmetic_v<T>)
      return static_cast<double>(number);
    else
      return 0.0;
  });
}

/// "12 of 100 elements differ, by at most 0.5"; "" where none does.
std::string difference(const ArrayInfo& info, const std::vector<std::byte>& a,
                       const std::vector<std::byte>& b) {
  if (a == b) return "";
  // A complex number as its two parts.
  const DType dtype = real_dtype(*info.dtype);
  const std::size_t size = size_of(dtype), count = a.size() / size;
  std::size_t different = 0;
  double most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::memcmp(a.data() + i * size, b.data() + i * size, size) == 0) continue;
    ++different;
    const double by = std::abs(number_at(a.data(), dtype, i) - number_at(b.data(), dtype, i));
    most = std::isnan(by) || by > most ? by : most;
  }
  return fmt::format("{} of {} {} differ, by at most {:g}", different, count,
                     is_complex(*info.dtype) ? "real and imaginary parts" : "elements", most);
}

int compare(const std::string& left, const std::string& right) {
  const auto a = Opened::open(left), b = Opened::open(right);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [path, info] : a->manifest().arrays) {
    const auto found = b->manifest().arrays.find(path);
    if (found == b->manifest().arrays.end()) {
      rows.push_back({name_of(path), "only in the first", checkpoint::describe(info)});
    } else if (found->second.dtype_name != info.dtype_name || found->second.shape != info.shape) {
      rows.push_back({name_of(path), "differs",
                      checkpoint::describe(info) + " and " + checkpoint::describe(found->second)});
    } else if (!info.dtype) {
      rows.push_back({name_of(path), "not compared", checkpoint::describe(info)});
    } else if (const std::string text =
                   difference(info, read_array(*a, path, info), read_array(*b, path, found->second));
               !text.empty()) {
      rows.push_back({name_of(path), "differs", text});
    }
  }
  for (const auto& [path, info] : b->manifest().arrays)
    if (!a->manifest().arrays.contains(path))
      rows.push_back({name_of(path), "only in the second", checkpoint::describe(info)});
  for (const auto& [path, value] : a->manifest().values) {
    const auto found = b->manifest().values.find(path);
    if (found == b->manifest().values.end())
      rows.push_back({name_of(path), "only in the first", checkpoint::to_string(value)});
    else if (checkpoint::to_string(found->second) != checkpoint::to_string(value))
      rows.push_back({name_of(path), "differs",
                      checkpoint::to_string(value) + " and " + checkpoint::to_string(found->second)});
  }
  for (const auto& [path, value] : b->manifest().values)
    if (!a->manifest().values.contains(path))
      rows.push_back({name_of(path), "only in the second", checkpoint::to_string(value)});
  if (rows.empty()) {
    print_line(fmt::format("the same: {} arrays, {}", a->manifest().arrays.size(),
                           amount_of_bytes(array_bytes(a->manifest()))));
    return 0;
  }
  print_table(std::move(rows), "lll");
  return kDiffers;
}

int export_to(const std::string& url, const std::string& folder, std::uint64_t largest) {
  const std::uint64_t total = array_bytes(Opened::open(url)->manifest());
  std::uint64_t done = 0;
  {
    ProgressBar progress("export", static_cast<std::int64_t>(total), takes_long(total),
                         ProgressBar::Unit::kBytes);
    checkpoint::ExportOptions options;
    options.largest_file = largest;
    options.on_written = [&](std::uint64_t bytes) {
      done += bytes;
      progress.update(static_cast<std::int64_t>(done));
    };
    checkpoint::export_checkpoint(url, folder, options);
  }
  print_line(fmt::format("{}: {}, as Hugging Face writes it", folder, amount_of_bytes(done)));
  return 0;
}

void remove_attempts(const std::string& run) {
  const auto store = storage::open_store(run);
  for (const checkpoint::Leftover& leftover : checkpoint::leftovers(*store)) {
    checkpoint::remove_leftover(*store, leftover);
    print_line("removed " + store->url(leftover.attempt.folder));
  }
}

/// A folder is removed by its name in the folder above it, which "." and ".." do not say.
std::string with_its_name(const std::string& url) {
  const std::string last = std::filesystem::path(url).filename().string();
  const bool is_folder = url.find("://") == url.npos && std::filesystem::is_directory(url);
  return is_folder && (last == "." || last == "..") ? std::filesystem::canonical(url).string() : url;
}

void remove_one(const std::string& url) {
  const auto [parent, name] = storage::split_url(with_its_name(url));
  const auto store = storage::open_store(parent);
  if (!checkpoint::remove_checkpoint(*store, name)) {
    fail<CheckpointError>(
        "[checkpoint] {} is not a checkpoint of Lockstep: it has no {}; nothing was removed (for unfinished "
        "saves: lockstep ckpt rm --attempts RUN)",
        url, checkpoint::kManifestName);
  }
  print_line("removed " + url);
}

int remove(const std::vector<std::string>& urls, bool attempts) {
  int status = 0;
  for (const std::string& url : urls) {
    try {
      attempts ? remove_attempts(url) : remove_one(url);
    } catch (const std::exception& error) {
      say_error(error);
      status = kCannot;
    }
  }
  return status;
}

struct Arguments {
  std::string url, other;
  std::vector<std::string> urls;
  std::uint64_t largest = 5'000'000'000;
  bool attempts = false;
};

}  // namespace

void add_ckpt_command(CLI::App& tool, int* status) {
  CLI::App* ckpt = tool.add_subcommand("ckpt", "Show, check, compare, export and remove checkpoints");
  ckpt->require_subcommand(1);
  auto arguments = std::make_shared<Arguments>();
  auto add = [&](const char* name, const char* what, auto run) {
    CLI::App* command = ckpt->add_subcommand(name, what);
    command->callback([=] {
      try {
        *status = run(*arguments);
      } catch (const std::exception& error) {
        say_error(error);
        *status = kCannot;
      }
    });
    return command;
  };
  CLI::App* ls = add("ls", "List the steps of a run, or the arrays and values of a checkpoint",
                     [](const Arguments& a) { return list(a.url); });
  ls->add_option("url", arguments->url, "A folder, or s3://bucket/prefix")->required();
  CLI::App* cat =
      add("cat", "Print an array or value", [](const Arguments& a) { return print(a.url, a.other); });
  cat->add_option("url", arguments->url, "A checkpoint")->required();
  cat->add_option("path", arguments->other, "As `ls` shows it")->required();
  CLI::App* check = add("verify", "Read everything, and check every checksum",
                        [](const Arguments& a) { return verify(a.url); });
  check->add_option("url", arguments->url, "A checkpoint, or a run with all of its steps")->required();
  CLI::App* diff =
      add("diff", "Compare two checkpoints", [](const Arguments& a) { return compare(a.url, a.other); });
  diff->add_option("first", arguments->url)->required();
  diff->add_option("second", arguments->other)->required();
  CLI::App* exported = add("export", "Write a checkpoint's arrays as Hugging Face does",
                           [](const Arguments& a) { return export_to(a.url, a.other, a.largest); });
  exported->add_option("url", arguments->url, "A checkpoint")->required();
  exported->add_option("folder", arguments->other, "To be made")->required();
  exported->add_option("--largest-file", arguments->largest, "In bytes")->capture_default_str();
  CLI::App* rm = add("rm", "Remove checkpoints: what their manifests name, and nothing else",
                     [](const Arguments& a) { return remove(a.urls, a.attempts); });
  rm->add_option("url", arguments->urls, "Checkpoints; with --attempts, runs")->required();
  rm->add_flag("--attempts", arguments->attempts, "Leftovers of saves that did not finish");
}

}  // namespace lockstep::cli
