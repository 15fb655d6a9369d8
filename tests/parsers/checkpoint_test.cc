// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "lockstep/base/digest.h"
#include "lockstep/checkpoint/manifest.h"
#include "lockstep/checkpoint/numpy.h"
#include "lockstep/checkpoint/pickle.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/checkpoint/stored_zip.h"
#include "lockstep/checkpoint/strided_reader.h"
#include "lockstep/checkpoint/test_npz.h"
#include "lockstep/checkpoint/tiles.h"
#include "lockstep/checkpoint/torch_file.h"
#include "tests/parsers/fuzz.h"
#include "tests/parsers/memory_file.h"

namespace lockstep::parsers {
namespace {

using namespace checkpoint;

Part part(Box box, std::size_t file, std::uint64_t offset, const Shape& tile) {
  const std::uint64_t tiles = num_tiles(shape_of(box), tile);
  return {std::move(box), file, offset, "w", tile, std::string(kSumDigits * tiles, 'a')};
}

/// The object in a manifest, without its checksum.
std::string body_of(const Manifest& manifest) {
  const std::string text = to_json(manifest);
  const std::size_t begin = text.find('\n') + std::strlen("\n\"checkpoint\":");
  return text.substr(begin, text.rfind('}') - begin);
}

TEST(Manifest, Mutated_IsReadOrRefused) {
  Manifest one;
  one.nonce = "4fd1";
  one.step = 70;
  one.metric = 0.25;
  one.created = "2026-11-22T14:00:00Z";
  one.num_processes = 2;
  one.files = {{"arrays-0.safetensors", 8192, 4096, std::string(kSumDigits, 'b')},
               {"arrays-1.safetensors", 8192, 4096, std::string(kSumDigits, 'c')}};
  one.values = {{"step", std::int64_t{70}}, {"name", std::string("x\xff")}, {"on", true}, {"rate", 0.5}};
  one.arrays["params/w"] = {
      DType::kF32,
      "F32",
      {8, 4},
      false,
      {part({{0, 4}, {0, 4}}, 0, 4096, {2, 4}), part({{4, 8}, {0, 4}}, 1, 4096, {2, 4})}};
  one.arrays["scale"] = {DType::kF32, "F32", {}, true, {part({}, 0, 4200, {})}};
  Manifest none;
  none.nonce = "1";
  none.created = "2026-11-22T14:00:00Z";
  fuzz<CheckpointError>({.name = "manifest",
                         .seeds = {body_of(one), body_of(none)},
                         .read =
                             [](const std::string& bytes) {
                               const Manifest manifest = parse_manifest(bytes, "manifest.json");
                               for (const auto& [path, array] : manifest.arrays) {
                                 bytes_of(array);
                                 describe(array);
                               }
                             },
                         .wrap =
                             [](const std::string& body) {
                               const std::string rest = "\"checkpoint\":" + body + "}\n";
                               return "{\"xxh3_128\":\"" + digest(rest) + "\",\n" + rest;
                             }});
}

TEST(Safetensors, MutatedHeader_IsReadOrRefused) {
  std::vector<safetensors::Tensor> tensors = {
      {"w", "F32", {2, 2}, 0, 16}, {"b", "BF16", {4}, 0, 8}, {"none", "I8", {0, 3}, 0, 0}};
  const std::string header = safetensors::make_header(tensors, {{"format", "pt"}});
  const std::string json = header.substr(8, header.find_last_not_of(' ') - 7);
  fuzz<CheckpointError>(
      {.name = "safetensors",
       .seeds = {json, R"({"w":{"dtype":"F8_E8M0","shape":[24],"data_offsets":[0,24]}})"},
       .read = [](const std::string& bytes) { safetensors::read_header(MemoryFile(bytes)); },
       .wrap =
           [](const std::string& inner) {
             const std::uint64_t length = inner.size();
             std::string bytes(8, '\0');
             std::memcpy(bytes.data(), &length, 8);
             return bytes + inner + std::string(24, '\1');
           }});
}

TEST(Npz, Mutated_IsReadOrRefused) {
  using data::test::npy_file;
  const std::string numbers(24, 'x');
  fuzz<CheckpointError, StorageError>(
      {.name = "npz",
       .seeds = {test::npz_file({test::npz_entry("a", npy_file("<f4", "(2, 3)", numbers)),
                                 test::npz_entry("b", npy_file("<f4", "(3, 2)", numbers, "True"))}),
                 test::npz_file({test::npz_entry("", npy_file("|b1", "(24,)", numbers))}),
                 test::npz_file({})},
       .read = [](const std::string& bytes) {
         for (const NumpyArray& array : open_npz(std::make_unique<MemoryFile>(bytes))) {
           const Part& part = array.info.parts.front();
           std::vector<std::byte> elements(std::min<std::uint64_t>(bytes_of(array.info), 1 << 16));
           array.reader->read(part.offset, elements);
         }
       }});
}

std::string torch_model() {
  std::ifstream file(LOCKSTEP_CHECKPOINT_TESTDATA "/model.pt", std::ios::binary);
  std::stringstream all;
  all << file.rdbuf();
  return all.str();
}

TEST(TorchFile, Mutated_IsReadOrRefused) {
  fuzz<CheckpointError, StorageError>(
      {.name = "torch", .seeds = {torch_model()}, .read = [](const std::string& bytes) {
         for (const auto& [about, begin] : read_torch(MemoryFile(bytes)).tensors) {
           const StridedReader reader(std::make_unique<MemoryFile>(bytes),
                                      begin + static_cast<std::uint64_t>(about.offset) * size_of(about.dtype),
                                      about.dtype, about.shape, about.strides);
           std::vector<std::byte> elements(reader.size());
           reader.read(0, elements);
         }
       }});
}

TEST(TorchPickle, Mutated_IsReadOrRefused) {
  const std::string model = torch_model();
  const MemoryFile file(model);
  const StoredZip zip(file);
  const std::string name = "model/data.pkl";
  fuzz<CheckpointError>({.name = "pickle",
                         .seeds = {model.substr(zip.begin(name), zip.entries().at(name).bytes),
                                   std::string("\x80\x02}q\0(X\1\0\0\0a](K\1K\2eu.", 21)},
                         .read = [](const std::string& bytes) {
                           read_pickle(bytes,
                                       [](const std::string& what, bool) { throw CheckpointError(what); });
                         }});
}

}  // namespace
}  // namespace lockstep::parsers
