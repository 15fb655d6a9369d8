// SPDX-License-Identifier: Apache-2.0
// Opening checkpoints for reading: Lockstep's own, and safetensors files of others.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/numpy.h"
#include "lockstep/checkpoint/opened.h"
#include "lockstep/checkpoint/part_writer.h"
#include "lockstep/checkpoint/safetensors.h"

namespace lockstep::checkpoint {
namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSafetensors = ".safetensors";

}  // namespace

class Opener {
 public:
  explicit Opener(const std::string& url) { opened_->url_ = url; }

  std::shared_ptr<Opened> open() {
    const std::string& url = opened_->url_;
    if (url.ends_with(kSafetensors)) {
      const auto [folder, name] = storage::split_url(url);
      opened_->store_ = storage::open_store(folder);
      add_safetensors(name, nullptr);
    } else if (url.ends_with(".npy")) {
      add_numpy(open_npy(storage::open_file(url)));
    } else if (url.ends_with(".npz")) {
      add_numpy(open_npz(storage::open_file(url)));
    } else {
      opened_->store_ = storage::open_store(url);
      open_folder();
    }
    opened_->files_.resize(opened_->manifest_.files.size());
    return opened_;
  }

 private:
  void open_folder() {
    const storage::Store& store = *opened_->store_;
    const std::string& url = opened_->url_;
    if (store.exists(kManifestName)) {
      opened_->manifest_ =
          parse_manifest(storage::read_whole(*store.open(kManifestName)), store.url(kManifestName));
      return;
    }
    whole_folder_ = true;
    if (store.exists(kIndexName)) return open_index();
    for (const storage::Entry& entry : store.list(""))
      if (!entry.is_folder && entry.name.ends_with(kSafetensors)) add_safetensors(entry.name, nullptr);
    if (opened_->manifest_.files.empty()) {
      fail<CheckpointError>(
          "[checkpoint] {} is not a checkpoint: it has no {}, no {} and no {} file; for a folder of steps, "
          "name one step",
          url, kManifestName, kIndexName, kSafetensors);
    }
  }

  /// Hugging Face's index contains the file of each tensor.
  void open_index() {
    const storage::Store& store = *opened_->store_;
    std::map<std::string, std::map<std::string, bool>>
        files;  // by name, tensors, and whether they were found
    try {
      const auto index = nlohmann::json::parse(storage::read_whole(*store.open(kIndexName)));
      for (const auto& [tensor, file] : index.at("weight_map").items()) files[file][tensor] = false;
      for (const auto& [file, tensors] : files) check_file_name(file, store.url(kIndexName));
    } catch (const nlohmann::json::exception& error) {
      fail<CheckpointError>("[checkpoint] {} is damaged: {}", store.url(kIndexName), error.what());
    }
    for (auto& [file, tensors] : files) {
      add_safetensors(file, &tensors);
      for (const auto& [tensor, found] : tensors) {
        if (!found) {
          fail<CheckpointError>("[checkpoint] according to {}, {} has the tensor {}, but it does not",
                                store.url(kIndexName), store.url(file), shown(tensor));
        }
      }
    }
  }

  /// All tensors of the file, or those that are asked for.
  void add_safetensors(const std::string& name, std::map<std::string, bool>* tensors) {
    Manifest& manifest = opened_->manifest_;
    const auto reader = opened_->store_->open(name);
    const safetensors::Header header = safetensors::read_header(*reader);
    opened_->bytes_read_ += header.bytes;
    const auto format = header.metadata.find("format");
    if (whole_folder_ && format != header.metadata.end() && format->second == kFormatOfParts) {
      fail<CheckpointError>(
          "[checkpoint] {} is not a checkpoint: {} is a part of one, whose {} is missing; restore another "
          "step",
          opened_->url_, name, kManifestName);
    }
    for (const safetensors::Tensor& tensor : header.tensors) {
      if (tensors != nullptr) {
        const auto found = tensors->find(tensor.name);
        if (found == tensors->end()) continue;
        found->second = true;
      }
      ArrayInfo array{safetensors::dtype_of_name(tensor.dtype), tensor.dtype, tensor.shape, false, {}};
      array.parts.push_back({whole(tensor.shape), manifest.files.size(), tensor.offset, tensor.name, {}, ""});
      if (!manifest.arrays.emplace(tensor.name, std::move(array)).second) {
        fail<CheckpointError>("[checkpoint] {}: several files have a tensor {}", opened_->url_,
                              shown(tensor.name));
      }
    }
    manifest.files.push_back({name, reader->size(), header.bytes, ""});
  }

  /// These are open already, each a file of its own.
  void add_numpy(std::vector<NumpyArray> arrays) {
    for (NumpyArray& array : arrays) {
      Manifest& manifest = opened_->manifest_;
      array.info.parts.front().file = manifest.files.size();
      manifest.files.push_back({array.reader->url(), array.reader->size(), 0, ""});
      opened_->files_.push_back({std::move(array.reader), nullptr, false});
      manifest.arrays.emplace(array.path, std::move(array.info));
    }
  }

  std::shared_ptr<Opened> opened_ = std::make_shared<Opened>();
  bool whole_folder_ = false;
};

std::shared_ptr<Opened> Opened::open(const std::string& url) { return Opener(url).open(); }

}  // namespace lockstep::checkpoint
