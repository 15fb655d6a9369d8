// SPDX-License-Identifier: Apache-2.0
// The plugin of data::parquet: Arrow reads row groups, and the result is passed in the format of
// parquet_plugin.h.

#include "lockstep/data/plugins/parquet_plugin.h"

#include <arrow/api.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/byte_size.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace {

using arrow::Result;
using arrow::Status;
using lockstep::DType;

/// The file of a LockstepParquetInput.
class Input final : public arrow::io::RandomAccessFile {
 public:
  explicit Input(const LockstepParquetInput& input) : input_(input) {}

  Result<std::int64_t> GetSize() override { return static_cast<std::int64_t>(input_.size); }
  Result<std::int64_t> ReadAt(std::int64_t offset, std::int64_t bytes, void* into) override {
    const auto begin = std::min(static_cast<std::uint64_t>(offset), input_.size);
    const auto count = std::min(static_cast<std::uint64_t>(bytes), input_.size - begin);
    char error[1024] = "";
    if (count > 0 && !input_.read(input_.context, begin, count, into, error, sizeof error))
      return Status::IOError(error);
    return static_cast<std::int64_t>(count);
  }
  Result<std::shared_ptr<arrow::Buffer>> ReadAt(std::int64_t offset, std::int64_t bytes) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateResizableBuffer(bytes, arrow::system_memory_pool()));
    ARROW_ASSIGN_OR_RAISE(const std::int64_t count, ReadAt(offset, bytes, buffer->mutable_data()));
    ARROW_RETURN_NOT_OK(buffer->Resize(count));
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
  }

  Result<std::int64_t> Read(std::int64_t bytes, void* into) override {
    ARROW_ASSIGN_OR_RAISE(const std::int64_t count, ReadAt(place_, bytes, into));
    place_ += count;
    return count;
  }
  Result<std::shared_ptr<arrow::Buffer>> Read(std::int64_t bytes) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(place_, bytes));
    place_ += buffer->size();
    return buffer;
  }
  Status Seek(std::int64_t place) override {
    place_ = place;
    return Status::OK();
  }
  Result<std::int64_t> Tell() const override { return place_; }
  Status Close() override {
    closed_ = true;
    return Status::OK();
  }
  bool closed() const override { return closed_; }

 private:
  const LockstepParquetInput& input_;
  std::int64_t place_ = 0;
  bool closed_ = false;
};

struct File {
  const LockstepParquetInput* input;
  std::shared_ptr<parquet::FileMetaData> metadata;
  std::vector<int> leaves;  // The columns to read, as Parquet counts them.

  Result<std::unique_ptr<parquet::arrow::FileReader>> reader() const {
    parquet::ReaderProperties properties(arrow::system_memory_pool());
    properties.set_page_checksum_verification(true);
    parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
    arrow_properties.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.Open(std::make_shared<Input>(*input), properties, metadata));
    return builder.memory_pool(arrow::system_memory_pool())->properties(arrow_properties)->Build();
  }
};

/// A decoded row group, and the data to which its columns point.
struct Group : LockstepParquetGroup {
  std::vector<LockstepParquetColumn> all;
  std::vector<std::vector<LockstepParquetChunk>> chunks;  // of each column
  std::vector<std::unique_ptr<std::string>> names;
  std::vector<std::shared_ptr<void>> memory;

  template <class T>
  T* make(std::int64_t count) {
    auto made = std::make_shared<std::vector<T>>(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)));
    T* data = made->data();
    memory.push_back(std::move(made));
    bytes += static_cast<std::uint64_t>(count) * sizeof(T);
    return data;
  }
};

/// The numbers of an array, dense; those without a value are undefined. Null if it has no numbers.
const void* numbers_of(const arrow::Array& array, DType* dtype, Group* group) {
  switch (array.type_id()) {
    case arrow::Type::BOOL: {
      *dtype = DType::kBool;
      auto* values = group->make<std::uint8_t>(array.length());
      const auto& bits = static_cast<const arrow::BooleanArray&>(array);
      for (std::int64_t i = 0; i < array.length(); ++i) values[i] = bits.Value(i) ? 1 : 0;
      return values;
    }
    case arrow::Type::INT8:
      *dtype = DType::kI8;
      break;
    case arrow::Type::INT16:
      *dtype = DType::kI16;
      break;
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
    case arrow::Type::TIME32:
      *dtype = DType::kI32;
      break;
    case arrow::Type::INT64:
    case arrow::Type::DATE64:
    case arrow::Type::TIME64:
    case arrow::Type::DURATION:
    case arrow::Type::TIMESTAMP:
      *dtype = DType::kI64;
      break;
    case arrow::Type::UINT8:
      *dtype = DType::kU8;
      break;
    case arrow::Type::UINT16:
      *dtype = DType::kU16;
      break;
    case arrow::Type::UINT32:
      *dtype = DType::kU32;
      break;
    case arrow::Type::UINT64:
      *dtype = DType::kU64;
      break;
    case arrow::Type::HALF_FLOAT:
      *dtype = DType::kF16;
      break;
    case arrow::Type::FLOAT:
      *dtype = DType::kF32;
      break;
    case arrow::Type::DOUBLE:
      *dtype = DType::kF64;
      break;
    default:
      return nullptr;
  }
  const arrow::ArrayData& data = *array.data();
  const int element = static_cast<const arrow::FixedWidthType&>(*array.type()).bit_width() / 8;
  return data.GetValues<std::uint8_t>(1, data.offset * element);
}

/// Texts and lists: where the elements of each row begin, relative to the first row's.
template <class Array>
void take_offsets(const Array& array, LockstepParquetChunk* chunk, Group* group) {
  auto* offsets = group->make<std::int64_t>(array.length() + 1);
  for (std::int64_t i = 0; i <= array.length(); ++i)
    offsets[i] = array.value_offset(i) - array.value_offset(0);
  chunk->offsets = offsets;
}

template <class Array>
void take_text(const Array& array, LockstepParquetChunk* chunk, Group* group) {
  chunk->values = array.raw_data() + array.value_offset(0);
  take_offsets(array, chunk, group);
}

template <class Array>
bool take_list(const Array& list, LockstepParquetColumn* column, LockstepParquetChunk* chunk, Group* group) {
  const auto begin = list.value_offset(0), end = list.value_offset(list.length());
  const std::shared_ptr<arrow::Array> elements = list.values()->Slice(begin, end - begin);
  take_offsets(list, chunk, group);
  // A number that is missing within a row has no place in a dense array.
  return elements->null_count() == 0 &&
         (chunk->values = numbers_of(*elements, &column->dtype, group)) != nullptr;
}

/// Sets the column's dtype and width, and makes a chunk of it; false if it cannot be a field.
bool take_chunk(const arrow::Array& array, LockstepParquetColumn* column, LockstepParquetChunk* chunk,
                Group* group) {
  chunk->rows = static_cast<std::uint64_t>(array.length());
  if (array.null_count() > 0) {
    auto* valid = group->make<std::uint8_t>(array.length());
    for (std::int64_t i = 0; i < array.length(); ++i) valid[i] = array.IsValid(i) ? 1 : 0;
    chunk->valid = valid;
  }
  switch (array.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      take_text(static_cast<const arrow::BinaryArray&>(array), chunk, group);
      return true;
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      take_text(static_cast<const arrow::LargeBinaryArray&>(array), chunk, group);
      return true;
    case arrow::Type::FIXED_SIZE_BINARY: {
      const auto& fixed = static_cast<const arrow::FixedSizeBinaryArray&>(array);
      column->width = fixed.byte_width();
      chunk->values = fixed.raw_values();
      return true;
    }
    case arrow::Type::LIST:
      return take_list(static_cast<const arrow::ListArray&>(array), column, chunk, group);
    case arrow::Type::LARGE_LIST:
      return take_list(static_cast<const arrow::LargeListArray&>(array), column, chunk, group);
    case arrow::Type::FIXED_SIZE_LIST: {
      const auto& list = static_cast<const arrow::FixedSizeListArray&>(array);
      column->width = list.value_length();
      const auto elements = list.values()->Slice(list.value_offset(0), list.length() * column->width);
      // Rows without a value may have elements without one.
      return (list.null_count() > 0 || elements->null_count() == 0) &&
             (chunk->values = numbers_of(*elements, &column->dtype, group)) != nullptr;
    }
    default:
      return (chunk->values = numbers_of(array, &column->dtype, group)) != nullptr;
  }
}

Status take_column(const std::string& name, const arrow::ChunkedArray& array, Group* group) {
  LockstepParquetColumn column{group->names.emplace_back(std::make_unique<std::string>(name))->c_str(),
                               DType::kU8, -1, 0, nullptr};
  auto& chunks = group->chunks.emplace_back();
  std::uint64_t rows = 0;
  for (const std::shared_ptr<arrow::Array>& part : array.chunks()) {
    if (part->length() == 0) continue;
    LockstepParquetChunk chunk{};
    if (!take_chunk(*part, &column, &chunk, group)) {
      return Status::TypeError(
          "column '", name, "' is ", array.type()->ToString(),
          ", which cannot be a field (or has nulls within its lists); name the columns to read");
    }
    rows += chunk.rows;
    chunks.push_back(chunk);
    group->memory.push_back(part);
  }
  if (rows != group->rows)
    return Status::Invalid("column '", name, "' has ", rows, " rows, and the row group ", group->rows);
  column.chunks = chunks.size();
  column.chunk = chunks.data();
  group->all.push_back(column);
  return Status::OK();
}

/// Refuses several files that were joined: the last one's footer would be read with the first one's data.
Status check_alone(const LockstepParquetInput& input, const parquet::FileMetaData& metadata) {
  std::int64_t end = 4;
  auto reaches = [&](std::int64_t offset, std::int64_t length) { end = std::max(end, offset + length); };
  for (int g = 0; g < metadata.num_row_groups(); ++g) {
    const auto group = metadata.RowGroup(g);
    for (int c = 0; c < group->num_columns(); ++c) {
      const auto chunk = group->ColumnChunk(c);
      const bool dictionary = chunk->has_dictionary_page() && chunk->dictionary_page_offset() > 0;
      reaches(dictionary ? std::min(chunk->dictionary_page_offset(), chunk->data_page_offset())
                         : chunk->data_page_offset(),
              chunk->total_compressed_size());
      if (const auto index = chunk->GetColumnIndexLocation()) reaches(index->offset, index->length);
      if (const auto index = chunk->GetOffsetIndexLocation()) reaches(index->offset, index->length);
    }
  }
  // The footer, its length, and the magic at the end.
  const std::int64_t own = end + metadata.size() + 8;
  const auto size = static_cast<std::int64_t>(input.size);
  char magic[4] = "", error[1024] = "";
  if (own < 12 || own >= size) return Status::OK();
  if (!input.read(input.context, static_cast<std::uint64_t>(size - own), sizeof magic, magic, error,
                  sizeof error))
    return Status::IOError(error);
  if (std::memcmp(magic, "PAR1", sizeof magic) != 0) return Status::OK();
  return Status::Invalid("the file consists of several, and the last one begins at byte ", size - own,
                         ": Parquet files cannot be joined by `cat`; read each, or write them as one");
}

Status open_file(const LockstepParquetInput* input, const char* const* columns, std::uint64_t count,
                 File* file) {
  file->input = input;
  file->metadata = parquet::ReadMetaData(std::make_shared<Input>(*input));
  ARROW_RETURN_NOT_OK(check_alone(*input, *file->metadata));
  std::vector<std::string> wanted(columns, columns + count);
  std::vector<bool> found(count, false);
  const parquet::SchemaDescriptor& schema = *file->metadata->schema();
  std::string names;
  std::set<std::string> names_taken;
  for (int i = 0; i < schema.num_columns(); ++i) {
    const std::string path = schema.Column(i)->path()->ToDotString();
    names += (names.empty() ? "" : ", ") + path;
    bool take = count == 0;
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      // A list's path has more components after its name: "tokens.list.element".
      if (path != wanted[k] && !path.starts_with(wanted[k] + ".")) continue;
      found[k] = take = true;
    }
    if (!take) continue;
    if (!names_taken.insert(path).second)
      return Status::Invalid("two columns are named '", path, "'; write the file with names of their own");
    file->leaves.push_back(i);
  }
  for (std::size_t k = 0; k < wanted.size(); ++k)
    if (!found[k]) return Status::KeyError("there is no column '", wanted[k], "'; there are ", names);
  return Status::OK();
}

Status read_group(const File& file, int number, Group* group) {
  ARROW_ASSIGN_OR_RAISE(auto reader, file.reader());
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Table> table, reader->ReadRowGroup(number, file.leaves));
  // Members of structs become columns of their own.
  auto is_struct = [](const auto& field) { return field->type()->id() == arrow::Type::STRUCT; };
  while (std::ranges::any_of(table->schema()->fields(), is_struct)) {
    ARROW_ASSIGN_OR_RAISE(table, table->Flatten(arrow::system_memory_pool()));
  }
  group->rows = static_cast<std::uint64_t>(table->num_rows());
  group->bytes += static_cast<std::uint64_t>(arrow::util::TotalBufferSize(*table));
  for (int i = 0; i < table->num_columns(); ++i)
    ARROW_RETURN_NOT_OK(take_column(table->field(i)->name(), *table->column(i), group));
  group->column = group->all.data();
  group->columns = group->all.size();
  return Status::OK();
}

void write_error(const std::string& text, char* error, std::uint64_t bytes) {
  const std::size_t count = std::min<std::size_t>(text.size(), bytes - 1);
  std::memcpy(error, text.data(), count);
  error[count] = '\0';
}

/// The result of `make`, or null and why.
template <class T, class Make>
T* made(const Make& make, char* error, std::uint64_t error_bytes) {
  try {
    auto result = std::make_unique<T>();
    const Status status = make(result.get());
    if (status.ok()) return result.release();
    write_error(status.message(), error, error_bytes);
  } catch (const std::exception& caught) {
    write_error(caught.what(), error, error_bytes);
  }
  return nullptr;
}

constexpr LockstepParquetPlugin kPlugin = {
    LOCKSTEP_PARQUET_VERSION,
    [](const LockstepParquetInput* input, const char* const* columns, std::uint64_t count, char* error,
       std::uint64_t error_bytes) -> void* {
      return made<File>([&](File* file) { return open_file(input, columns, count, file); }, error,
                        error_bytes);
    },
    [](void* file) { delete static_cast<File*>(file); },
    [](const void* file) {
      return static_cast<std::uint64_t>(static_cast<const File*>(file)->metadata->num_row_groups());
    },
    [](const void* file, std::uint64_t group) {
      const auto& metadata = *static_cast<const File*>(file)->metadata;
      return static_cast<std::uint64_t>(metadata.RowGroup(static_cast<int>(group))->num_rows());
    },
    [](const void* file, std::uint64_t number, char* error,
       std::uint64_t error_bytes) -> const LockstepParquetGroup* {
      return made<Group>(
          [&](Group* group) {
            return read_group(*static_cast<const File*>(file), static_cast<int>(number), group);
          },
          error, error_bytes);
    },
    [](const LockstepParquetGroup* group) { delete static_cast<const Group*>(group); }};

}  // namespace

extern "C" __attribute__((visibility("default"))) const LockstepParquetPlugin* lockstep_parquet_plugin() {
  return &kPlugin;
}
