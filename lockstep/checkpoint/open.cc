// SPDX-License-Identifier: Apache-2.0
// Opening checkpoints for reading: Lockstep's own, and safetensors files of others.

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/base/strided_copy.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/numpy.h"
#include "lockstep/checkpoint/opened.h"
#include "lockstep/checkpoint/part_writer.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/checkpoint/strided_reader.h"
#include "lockstep/checkpoint/torch_file.h"
#include "lockstep/storage/url.h"

namespace lockstep::checkpoint {
namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kTorchIndexName = "pytorch_model.bin.index.json";
constexpr const char* kTorchName = "pytorch_model.bin";
constexpr std::string_view kSafetensors = ".safetensors", kNpy = ".npy", kNpz = ".npz";
constexpr std::array<std::string_view, 6> kFileEndings{kSafetensors, kNpy, kNpz, ".bin", ".pt", ".pth"};

bool is_local_folder(const std::string& url) {
  const storage::Location location = storage::locate(url);
  std::error_code error;
  return !location.is_object && std::filesystem::is_directory(location.path, error);
}

}  // namespace

class Opener {
 public:
  explicit Opener(const std::string& url) { opened_->url_ = url; }

  std::shared_ptr<Opened> open() {
    const std::string& url = opened_->url_;
    const std::string_view ending = ending_of_file(url);
    if (ending == kNpy) {
      add_numpy(open_npy(storage::open_file(url)));
    } else if (ending == kNpz) {
      add_numpy(open_npz(storage::open_file(url)));
    } else if (!ending.empty() && !is_local_folder(url)) {
      const auto [folder, name] = storage::split_url(url);
      opened_->store_ = storage::open_store(folder);
      if (ending == kSafetensors)
        add_safetensors(name, nullptr);
      else
        add_torch(name, nullptr);
    } else {
      opened_->store_ = storage::open_store(url);
      open_folder();
    }
    opened_->files_.resize(opened_->manifest_.files.size());
    return opened_;
  }

 private:
  using Found = std::map<std::string, bool>;  ///< tensors by name, and whether they were found

  void open_folder() {
    const storage::Store& store = *opened_->store_;
    const std::string& url = opened_->url_;
    if (store.exists(kManifestName)) {
      opened_->manifest_ =
          parse_manifest(storage::read_whole(*store.open(kManifestName)), store.url(kManifestName));
      return;
    }
    whole_folder_ = true;
    if (store.exists(kIndexName)) return open_index(kIndexName, &Opener::add_safetensors);
    for (const storage::Entry& entry : store.list(""))
      if (!entry.is_folder && entry.name.ends_with(kSafetensors)) add_safetensors(entry.name, nullptr);
    if (!opened_->manifest_.files.empty()) return;
    if (store.exists(kTorchIndexName)) {
      open_index(kTorchIndexName, &Opener::add_torch);
    } else if (store.exists(kTorchName)) {
      add_torch(kTorchName, nullptr);
    } else {
      fail<CheckpointError>(
          "[checkpoint] {} is not a checkpoint: it has no {}, no {}, no {} file and no {}; for a folder of "
          "steps, name one step",
          url, kManifestName, kIndexName, kSafetensors, kTorchName);
    }
  }

  /// Hugging Face's index contains the file of each tensor.
  void open_index(const char* name, void (Opener::*add)(const std::string&, Found*)) {
    const storage::Store& store = *opened_->store_;
    std::map<std::string, Found> files;
    try {
      const auto index = parse_json(storage::read_whole(*store.open(name)));
      for (const auto& [tensor, file] : index.at("weight_map").items()) files[file][tensor] = false;
      for (const auto& [file, tensors] : files) check_file_name(file, store.url(name));
    } catch (const nlohmann::json::exception& error) {
      fail<CheckpointError>("[checkpoint] {} is damaged: {}", store.url(name), error.what());
    }
    for (auto& [file, tensors] : files) {
      (this->*add)(file, &tensors);
      for (const auto& [tensor, found] : tensors) {
        if (!found) {
          fail<CheckpointError>("[checkpoint] according to {}, {} has the tensor {}, but it does not",
                                store.url(name), store.url(file), shown(tensor));
        }
      }
    }
  }

  /// All tensors of the file, or those that are asked for.
  void add_safetensors(const std::string& name, Found* tensors) {
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
      add_array(tensor.name,
                {safetensors::dtype_of_name(tensor.dtype), tensor.dtype, tensor.shape, false, {}},
                manifest.files.size(), tensor.offset);
    }
    manifest.files.push_back({name, reader->size(), header.bytes, ""});
  }

  void add_array(const std::string& name, ArrayInfo array, std::size_t file, std::uint64_t offset) {
    array.parts.push_back({whole(array.shape), file, offset, name, {}, ""});
    if (!opened_->manifest_.arrays.emplace(name, std::move(array)).second)
      fail<CheckpointError>("[checkpoint] {}: several files have a tensor {}", opened_->url_, shown(name));
  }

  /// Tensors that are not dense and row-major are files of their own.
  void add_torch(const std::string& name, Found* tensors) {
    Manifest& manifest = opened_->manifest_;
    const auto reader = opened_->store_->open(name);
    TorchFile contents = read_torch(*reader);
    const std::size_t file = manifest.files.size();
    manifest.files.push_back({name, reader->size(), 0, ""});
    for (const auto& [about, begin] : contents.tensors) {
      if (tensors != nullptr) {
        const auto found = tensors->find(about.name);
        if (found == tensors->end()) continue;
        found->second = true;
      }
      const std::uint64_t offset = begin + static_cast<std::uint64_t>(about.offset) * size_of(about.dtype);
      const ArrayInfo array{
          about.dtype, std::string(safetensors::name_of(about.dtype)), about.shape, false, {}};
      if (internal::is_row_major(about.shape, about.strides)) {
        add_array(about.name, array, file, offset);
        continue;
      }
      add_array(about.name, array, manifest.files.size(), 0);
      opened_->files_.resize(manifest.files.size());
      opened_->files_.push_back({std::make_unique<StridedReader>(opened_->store_->open(name), offset,
                                                                 about.dtype, about.shape, about.strides),
                                 nullptr, false});
      manifest.files.push_back({name, opened_->files_.back().reader->size(), 0, ""});
    }
    manifest.values.merge(contents.values);
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

std::string_view ending_of_file(std::string_view url) {
  for (std::string_view ending : kFileEndings)
    if (url.ends_with(ending)) return ending;
  return "";
}

std::shared_ptr<Opened> Opened::open(const std::string& url) { return Opener(url).open(); }

}  // namespace lockstep::checkpoint
