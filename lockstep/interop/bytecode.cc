// SPDX-License-Identifier: Apache-2.0
#include "lockstep/interop/bytecode.h"

#include <array>
#include <optional>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/interop/properties.h"
#include "lockstep/interop/tables.h"

namespace lockstep::interop {
namespace {

constexpr std::string_view kMagic = "ML\xEFR";
constexpr std::uint64_t kNewestVersion = 6;

/// The sections of a module, by their numbers.
enum Section : std::uint8_t {
  kStrings,
  kDialects,
  kValues,  ///< attributes and types
  kOffsets,
  kIr,
  kResources,
  kResourceOffsets,
  kDialectVersions,
  kProperties,
  kNumSections
};

struct SectionBytes {
  std::uint8_t id;
  std::string_view bytes;
};

SectionBytes read_section(Bytes& bytes) {
  const std::uint8_t head = bytes.byte();
  const std::uint64_t size = bytes.number();
  if ((head & 0x80) != 0) {
    const std::uint64_t alignment = bytes.number();
    if (alignment == 0 || alignment > 4096) fail_damaged("a section's alignment is out of range");
    while (bytes.position() % alignment != 0) bytes.byte();
  }
  if (size > bytes.left()) fail_damaged("a section is longer than the module");
  return {static_cast<std::uint8_t>(head & 0x7F), bytes.take(static_cast<std::size_t>(size))};
}

/// Which parts an operation has.
enum Has : std::uint8_t {
  kHasAttributes = 1,
  kHasResults = 2,
  kHasOperands = 4,
  kHasSuccessors = 8,
  kHasRegions = 16,
  kHasUseOrders = 32,
  kHasProperties = 64
};

class Reader {
 public:
  explicit Reader(std::string_view all) : all_(all) {}

  Module read() {
    Bytes bytes(all_);
    if (!all_.starts_with(kMagic)) fail_damaged("the module is not MLIR bytecode");
    bytes.take(kMagic.size());
    version_ = bytes.number();
    Module module;
    if (version_ > kNewestVersion) {
      fail<Error>(
          "[import_jax_export] the module is MLIR bytecode of version {}; this Lockstep reads up to {}",
          version_, kNewestVersion);
    }
    module.producer = std::string(bytes.text());
    while (!bytes.empty()) {
      const SectionBytes section = read_section(bytes);
      if (section.id >= kNumSections) fail_damaged("a section is of an unknown kind");
      sections_[section.id] = section.bytes;
    }
    read_strings();
    read_dialects();
    read_offsets();
    read_properties();
    if (!sections_[kIr]) fail_damaged("the module has no operations");
    Bytes ir(*sections_[kIr]);
    scopes_.emplace_back();
    module.body = block(ir);
    module.num_values = num_values_;
    return module;
  }

 private:
  Bytes section(Section id) const {
    if (!sections_[id]) fail_damaged("a section is missing");
    return Bytes(*sections_[id]);
  }

  /// The sizes come first, the last string's before the first one's.
  void read_strings() {
    Bytes bytes = section(kStrings);
    std::vector<std::size_t> sizes(bytes.count());
    for (std::size_t i = sizes.size(); i-- > 0;) sizes[i] = static_cast<std::size_t>(bytes.number());
    for (const std::size_t size : sizes) {
      if (size == 0) fail_damaged("a string is of no size");
      tables_.strings.push_back(bytes.take(size).substr(0, size - 1));
    }
  }

  void read_dialects() {
    Bytes bytes = section(kDialects);
    for (std::size_t n = bytes.count(); n > 0; --n) {
      bool versioned = false;
      tables_.dialects.push_back(
          tables_.string(version_ >= 1 ? bytes.number_and(versioned) : bytes.number()));
      if (versioned) read_section(bytes);
    }
    if (version_ >= 4) bytes.number();  // how many names of operations there are
    while (!bytes.empty()) {
      const std::uint64_t dialect = bytes.number();
      if (dialect >= tables_.dialects.size()) fail_damaged("a dialect is not there");
      for (std::size_t n = bytes.count(); n > 0; --n) {
        bool registered = false;
        const std::uint64_t name = version_ >= 5 ? bytes.number_and(registered) : bytes.number();
        operation_names_.push_back(tables_.dialects[dialect] + "." + tables_.string(name));
      }
    }
  }

  void read_offsets() {
    Bytes bytes = section(kOffsets), values = section(kValues);
    const std::uint64_t num_attributes = bytes.number(), num_types = bytes.number();
    const auto read = [&](std::vector<Tables::Entry>& entries, std::uint64_t wanted) {
      while (entries.size() < wanted) {
        const std::uint64_t dialect = bytes.number();
        if (dialect >= tables_.dialects.size()) fail_damaged("a dialect is not there");
        for (std::size_t n = bytes.count(); n > 0; --n) {
          bool encoded = false;
          const std::uint64_t size = bytes.number_and(encoded);
          if (size > values.left()) fail_damaged("an attribute is longer than the module");
          entries.push_back(
              {static_cast<std::size_t>(dialect), encoded, values.take(static_cast<std::size_t>(size))});
        }
      }
    };
    read(tables_.attribute_entries, num_attributes);
    read(tables_.type_entries, num_types);
  }

  void read_properties() {
    if (!sections_[kProperties]) return;
    Bytes bytes = section(kProperties);
    for (std::size_t n = bytes.count(); n > 0; --n) properties_.push_back(bytes.take(bytes.count()));
  }

  /// The values of a function, or of the module, by the numbers that operations know them by.
  struct Scope {
    std::vector<std::optional<std::size_t>> values;
    std::vector<std::size_t> next;  ///< of each region that is open
  };

  void open_region(std::size_t num_values) {
    Scope& scope = scopes_.back();
    if (num_values > all_.size()) fail_damaged("a region has more values than the module has bytes");
    scope.next.push_back(scope.values.size());
    scope.values.resize(scope.values.size() + num_values);
    sizes_.push_back(num_values);
  }

  void close_region() {
    Scope& scope = scopes_.back();
    scope.values.resize(scope.values.size() - sizes_.back());
    scope.next.pop_back();
    sizes_.pop_back();
  }

  std::size_t define() {
    Scope& scope = scopes_.back();
    if (scope.next.empty()) fail_damaged("a value is in no region");
    const std::size_t number = scope.next.back()++;
    if (number >= scope.values.size()) fail_damaged("a region has more values than it says");
    scope.values[number] = num_values_;
    return num_values_++;
  }

  std::size_t use(std::uint64_t number) const {
    const Scope& scope = scopes_.back();
    if (number >= scope.values.size() || !scope.values[number])
      fail_damaged("a value is used before it is there");
    return *scope.values[number];
  }

  Region block(Bytes& bytes) {
    if (++depth_ > kDeepest) fail_damaged("regions are nested too deep");
    Region region;
    bool has_arguments = false;
    std::uint64_t num_operations = bytes.number_and(has_arguments);
    if (num_operations > bytes.left()) fail_damaged("a block has more operations than the module has bytes");
    if (has_arguments) {
      for (std::size_t n = bytes.count(); n > 0; --n) {
        bool has_location = true;
        std::uint64_t type = version_ >= 4 ? bytes.number_and(has_location) : bytes.number();
        if (has_location) bytes.number();
        region.argument_types.push_back(tables_.type(type));
        region.arguments.push_back(define());
      }
      if (version_ >= 3 && bytes.byte() != 0) skip_use_orders(bytes, region.arguments.size());
    }
    for (; num_operations > 0; --num_operations) region.operations.push_back(operation(bytes));
    --depth_;
    return region;
  }

  /// In which order the uses of values stand in lists: of no meaning here.
  static void skip_use_orders(Bytes& bytes, std::size_t num_values) {
    for (std::size_t n = num_values == 1 ? 1 : bytes.count(); n > 0; --n) {
      if (num_values != 1) bytes.number();
      bool pairs = false;
      for (std::uint64_t k = bytes.number_and(pairs); k > 0; --k) bytes.number();
    }
  }

  Operation operation(Bytes& bytes) {
    Operation op;
    const std::uint64_t name = bytes.number();
    if (name >= operation_names_.size()) fail_damaged("an operation is not there");
    op.name = operation_names_[name];
    const std::uint8_t has = bytes.byte();
    op.location = tables_.attribute(bytes.number());
    if (has & kHasAttributes) op.attributes = tables_.attribute(bytes.number())->entries;
    if (has & kHasProperties) {
      const std::uint64_t index = bytes.number();
      if (index >= properties_.size()) fail_damaged("properties are not there");
      read_properties_of(op, Bytes(properties_[index]));
    }
    if (has & kHasResults)
      for (std::size_t n = bytes.count(); n > 0; --n) op.result_types.push_back(tables_.type(bytes.number()));
    if (has & kHasOperands)
      for (std::size_t n = bytes.count(); n > 0; --n) op.operands.push_back(use(bytes.number()));
    if (has & kHasSuccessors)
      for (std::size_t n = bytes.count(); n > 0; --n) bytes.number();
    if (has & kHasUseOrders) skip_use_orders(bytes, op.result_types.size());
    for (std::size_t i = 0; i < op.result_types.size(); ++i) op.results.push_back(define());
    if (has & kHasRegions) read_regions(bytes, op);
    return op;
  }

  /// They are attributes, one after the other; each dialect knows whose.
  void read_properties_of(Operation& op, Bytes bytes) {
    if (!op.name.starts_with("vhlo.") && !op.name.starts_with("sdy.")) return;
    while (!bytes.empty()) op.properties.push_back(tables_.attribute(bytes.number()));
    const std::vector<std::string>* names = property_names(op.name);
    if (names == nullptr) return;
    if (names->size() != op.properties.size()) {
      fail<Error>("[import_jax_export] {} has {} properties; expected {}, as JAX 0.10.2 writes it", op.name,
                  op.properties.size(), names->size());
    }
    for (std::size_t i = 0; i < names->size(); ++i) op.attributes[(*names)[i]] = op.properties[i];
  }

  void read_regions(Bytes& bytes, Operation& op) {
    bool isolated = false;
    const std::uint64_t count = bytes.number_and(isolated);
    if (count > bytes.left()) fail_damaged("an operation has more regions than the module has bytes");
    Bytes own("");
    Bytes* from = &bytes;
    if (isolated && version_ >= 2) {
      own = Bytes(read_section(bytes).bytes);
      from = &own;
    }
    if (isolated) scopes_.emplace_back();
    for (std::uint64_t i = 0; i < count; ++i) {
      Region region;
      const std::uint64_t blocks = from->number();
      if (blocks > 1) {
        fail<Error>("[import_jax_export] {} has a region of {} blocks; expected one, as JAX exports it",
                    op.name, blocks);
      }
      if (blocks == 1) {
        open_region(static_cast<std::size_t>(from->number()));
        region = block(*from);
        close_region();
      }
      op.regions.push_back(std::move(region));
    }
    if (isolated) scopes_.pop_back();
  }

  static constexpr int kDeepest = 500;

  const std::string_view all_;
  std::uint64_t version_ = 0;
  std::array<std::optional<std::string_view>, kNumSections> sections_ = {};
  Tables tables_;
  std::vector<std::string> operation_names_;
  std::vector<std::string_view> properties_;
  std::vector<Scope> scopes_;
  std::vector<std::size_t> sizes_;
  std::size_t num_values_ = 0;
  int depth_ = 0;
};

}  // namespace

Module read_bytecode(std::string_view bytes) { return Reader(bytes).read(); }

}  // namespace lockstep::interop
