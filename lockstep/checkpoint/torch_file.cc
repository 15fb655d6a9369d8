// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/torch_file.h"

#include <fmt/format.h>

#include <map>
#include <span>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/stored_zip.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::uint64_t kLargestPickle = std::uint64_t{1} << 28;

/// The numbers and texts by which a file of torch before 1.6 begins.
constexpr std::string_view kOldFormat = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9";

std::string entry_text(const storage::Reader& file, const StoredZip& zip, const std::string& name,
                       std::uint64_t most) {
  const std::uint64_t begin = zip.begin(name);
  std::string text(zip.entries().at(name).bytes, '\0');
  if (text.size() > most) zip.damaged("its entry " + shown(name) + " is too large");
  file.read(begin, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

TorchFile read_torch(const storage::Reader& file) {
  if (file.size() > kOldFormat.size()) {
    std::string start(kOldFormat.size(), '\0');
    file.read(0, std::as_writable_bytes(std::span(start)));
    if (start == kOldFormat)
      fail<CheckpointError>(
          "[checkpoint] {} has the format of torch before 1.6; load it in torch, and save it again",
          file.url());
  }
  const StoredZip zip(file);
  std::string folder;
  bool found = false;
  for (const auto& [name, entry] : zip.entries()) {
    constexpr std::string_view kPickle = "/data.pkl";
    if (!name.ends_with(kPickle) || name.find('/') != name.size() - kPickle.size()) continue;
    folder = name.substr(0, name.size() - kPickle.size() + 1);
    found = true;
  }
  if (!found) zip.damaged("it has no data.pkl");
  if (zip.entries().contains(folder + "byteorder") &&
      entry_text(file, zip, folder + "byteorder", 16) != "little")
    fail<CheckpointError>("[checkpoint] {} was written on a big-endian machine", file.url());
  const auto refuse = [&](const std::string& what, bool is_foreign) {
    if (!is_foreign) zip.damaged(what);
    fail<CheckpointError>(
        "[checkpoint] {}: {}, which is no part of a tensor, and nothing of a file is executed; in torch, "
        "save "
        "model.state_dict() alone, or as .safetensors",
        file.url(), what);
  };
  Pickled pickled = read_pickle(entry_text(file, zip, folder + "data.pkl", kLargestPickle), refuse);
  TorchFile result{{}, std::move(pickled.values)};
  std::map<std::string, std::uint64_t> begins;
  for (PickledTensor& tensor : pickled.tensors) {
    const std::string name = folder + "data/" + tensor.storage;
    auto begin = begins.find(name);
    if (begin == begins.end()) {
      begin = begins.emplace(name, zip.begin(name)).first;
    }
    if (zip.entries().at(name).bytes < tensor.storage_bytes)
      zip.damaged(fmt::format("the storage of {} has {} bytes, expected {}", shown(tensor.name),
                              zip.entries().at(name).bytes, tensor.storage_bytes));
    result.tensors.push_back({std::move(tensor), begin->second});
  }
  return result;
}

}  // namespace lockstep::checkpoint
