// SPDX-License-Identifier: Apache-2.0
#include "lockstep/interop/tables.h"

#include <bit>
#include <utility>

#include "lockstep/base/fail.h"

namespace lockstep::interop {
namespace {

/// Deeper than any real attribute; a damaged one may be part of itself.
constexpr int kDeepest = 200;

AttributePtr made(Attribute attribute) { return std::make_shared<const Attribute>(std::move(attribute)); }
TypePtr made(Type type) { return std::make_shared<const Type>(std::move(type)); }

AttributePtr text_attribute(Attribute::Kind kind, std::string text) {
  return made({.kind = kind, .text = std::move(text)});
}

AttributePtr integer_attribute(std::int64_t value) {
  return made({.kind = Attribute::Kind::kInteger, .integer = value});
}

AttributePtr list_attribute(Bytes& bytes, Tables& tables) {
  Attribute list{.kind = Attribute::Kind::kArray};
  for (std::size_t n = bytes.count(); n > 0; --n) list.elements.push_back(tables.attribute(bytes.number()));
  return made(std::move(list));
}

AttributePtr dictionary_attribute(Bytes& bytes, Tables& tables) {
  Attribute dictionary{.kind = Attribute::Kind::kDictionary};
  for (std::size_t n = bytes.count(); n > 0; --n) {
    const AttributePtr name = tables.attribute(bytes.number());
    dictionary.entries[name->text] = tables.attribute(bytes.number());
  }
  return made(std::move(dictionary));
}

Shape shape_of(Bytes& bytes) {
  Shape shape;
  for (std::size_t n = bytes.count(); n > 0; --n) shape.push_back(bytes.signed_number());
  return shape;
}

/// An integer of so many bits.
std::int64_t integer_of(Bytes& bytes, int width) {
  return width <= 8 ? static_cast<std::int8_t>(bytes.byte()) : bytes.signed_number();
}

int width_of(const Type& type) {
  if (type.name == "i1") return 1;
  if (type.name.ends_with("i8")) return 8;
  return 64;  // wider ones are all encoded alike
}

// MLIR's own dialect, as far as portable artifacts use it: names, the dictionaries of operations, and
// locations.
AttributePtr builtin_attribute(Bytes& bytes, Tables& tables) {
  using Kind = Attribute::Kind;
  const std::uint64_t code = bytes.number();
  switch (code) {
    case 0:
      return list_attribute(bytes, tables);
    case 1:
      return dictionary_attribute(bytes, tables);
    case 2:
    case 3:
      return text_attribute(Kind::kString, tables.string(bytes.number()));
    case 4:
      return tables.attribute(bytes.number());
    case 6:
      return made({.kind = Kind::kType, .type = tables.type(bytes.number())});
    case 7:
      return integer_attribute(1);
    case 8: {
      const TypePtr type = tables.type(bytes.number());
      return integer_attribute(integer_of(bytes, width_of(*type)));
    }
    case 10:  // a call site: what is called, and from where
      return tables.attribute(bytes.number());
    case 11: {
      const AttributePtr file = tables.attribute(bytes.number());
      return text_attribute(Kind::kLocation, fmt::format("{}:{}", file->text, bytes.number()));
    }
    case 12: {
      const std::size_t count = bytes.count();
      return count == 0 ? text_attribute(Kind::kLocation, "") : tables.attribute(bytes.number());
    }
    case 14: {
      const AttributePtr name = tables.attribute(bytes.number()), child = tables.attribute(bytes.number());
      return text_attribute(Kind::kLocation, child->text.empty() || child->kind != Kind::kLocation
                                                 ? name->text
                                                 : fmt::format("{} ({})", name->text, child->text));
    }
    case 22: {  // a range of a file; its first number is packed, and only the file is shown
      const AttributePtr file = tables.attribute(bytes.number());
      return text_attribute(Kind::kLocation, file->text);
    }
    case 15:
      return text_attribute(Kind::kLocation, "");
    default:
      return text_attribute(Kind::kOther, fmt::format("attribute {} of MLIR", code));
  }
}

AttributePtr vhlo_attribute(Bytes& bytes, Tables& tables) {
  using Kind = Attribute::Kind;
  const std::uint64_t code = bytes.number();
  switch (code) {
    case 1:
      return list_attribute(bytes, tables);
    case 2:   // bool
    case 3:   // direction of a comparison
    case 4:   // type of a comparison
    case 5:   // version of a custom call
    case 7:   // kind of a Fourier transform
    case 11:  // precision
    case 12:  // algorithm of random bits
    case 13:  // distribution of random numbers
    case 16:  // transposition
    case 19:  // mode of accuracy
      return integer_attribute(static_cast<std::int64_t>(bytes.number()));
    case 6:
      return dictionary_attribute(bytes, tables);
    case 8: {
      const TypePtr type = tables.type(bytes.number());
      const std::int64_t bits = bytes.signed_number();
      const double value = type->name == "f32" ? std::bit_cast<float>(static_cast<std::uint32_t>(bits))
                                               : std::bit_cast<double>(bits);
      return made({.kind = Kind::kFloat, .real = value, .type = type});
    }
    case 9: {
      const TypePtr type = tables.type(bytes.number());
      return integer_attribute(integer_of(bytes, width_of(*type)));
    }
    case 14:
      return text_attribute(Kind::kString, tables.string(bytes.number()));
    case 15: {
      const TypePtr type = tables.type(bytes.number());
      return made({.kind = Kind::kTensor, .text = std::string(bytes.take(bytes.count())), .type = type});
    }
    case 17:
      return made({.kind = Kind::kType, .type = tables.type(bytes.number())});
    case 20: {
      for (int i = 0; i < 3; ++i) bytes.signed_number();  // the tolerances
      return tables.attribute(bytes.number());            // the mode
    }
    default:
      return text_attribute(Kind::kOther, fmt::format("attribute {} of VHLO", code));
  }
}

// Shardy's dialect: the meshes and shardings in it.
AttributePtr sdy_attribute(Bytes& bytes, Tables& tables) {
  using Kind = Attribute::Kind;
  const std::uint64_t code = bytes.number();
  switch (code) {
    case 1: {  // an axis of a mesh
      Attribute axis{.kind = Kind::kOther, .text = tables.string(bytes.number())};
      axis.integer = bytes.signed_number();
      return made(std::move(axis));
    }
    case 2: {
      Attribute mesh{.kind = Kind::kMesh};
      for (std::size_t n = bytes.count(); n > 0; --n) {
        const AttributePtr axis = tables.attribute(bytes.number());
        mesh.splits.push_back({axis->text});
        mesh.numbers.push_back(axis->integer);
      }
      return made(std::move(mesh));
    }
    case 4: {  // an axis; a part of one is not understood
      Attribute axis{.kind = Kind::kString, .text = tables.string(bytes.number())};
      bool is_part = false;
      bytes.number_and(is_part);
      if (is_part) return text_attribute(Kind::kOther, fmt::format("a part of the axis '{}'", axis.text));
      return made(std::move(axis));
    }
    case 5: {  // of one dimension
      Attribute dimension{.kind = Kind::kArray};
      for (std::size_t n = bytes.count(); n > 0; --n)
        dimension.elements.push_back(tables.attribute(bytes.number()));
      dimension.integer = bytes.byte();  // closed
      return made(std::move(dimension));
    }
    case 6: {  // of a value
      Attribute sharding{.kind = Kind::kSharding};
      sharding.text = tables.attribute(bytes.number())->text;
      for (std::size_t n = bytes.count(); n > 0; --n) {
        const AttributePtr dimension = tables.attribute(bytes.number());
        std::vector<std::string>& axes = sharding.splits.emplace_back();
        for (const AttributePtr& axis : dimension->elements) {
          if (axis->kind != Kind::kString)
            return text_attribute(Kind::kOther, fmt::format("a sharding with {}", axis->text));
          axes.push_back(axis->text);
        }
        sharding.open.push_back(dimension->integer == 0);
      }
      return made(std::move(sharding));
    }
    default:
      return text_attribute(Kind::kOther, fmt::format("attribute {} of Shardy", code));
  }
}

TypePtr vhlo_type(Bytes& bytes, Tables& tables) {
  using Kind = Type::Kind;
  const std::uint64_t code = bytes.number();
  constexpr std::pair<std::uint64_t, const char*> kElements[] = {
      {0, "i1"},
      {2, "bf16"},
      {3, "f16"},
      {4, "f32"},
      {5, "f64"},
      {6, "f8E4M3FN"},
      {7, "f8E5M2"},
      {10, "i4"},
      {11, "i8"},
      {12, "i16"},
      {13, "i32"},
      {14, "i64"},
      {15, "ui4"},
      {16, "ui8"},
      {17, "ui16"},
      {18, "ui32"},
      {19, "ui64"},
      // No array has these; their names are for messages.
      {27, "f8E4M3FNUZ"},
      {28, "f8E5M2FNUZ"},
      {29, "f8E4M3B11FNUZ"},
      {31, "i2"},
      {32, "ui2"},
      {35, "f8E4M3"},
      {36, "f8E3M4"},
      {37, "f4E2M1FN"},
      {40, "f8E8M0FNU"}};
  for (const auto& [number, name] : kElements)
    if (number == code) return made({.kind = Kind::kElement, .name = name});
  switch (code) {
    case 1: {
      const TypePtr part = tables.type(bytes.number());
      return made({.kind = Kind::kElement, .name = fmt::format("complex<{}>", part->name)});
    }
    case 20: {
      Shape shape = shape_of(bytes);
      return made({.kind = Kind::kTensor, .shape = std::move(shape), .element = tables.type(bytes.number())});
    }
    case 22:
      return made({.name = "a token"});
    case 23:
      return made({.name = "a tuple"});
    default:
      return made({.name = fmt::format("type {} of VHLO", code)});
  }
}

/// Reads a type of MLIR's own; only those that its own attributes and Shardy's operations use are known.
TypePtr builtin_type(Bytes& bytes, Tables& tables) {
  using Kind = Type::Kind;
  const std::uint64_t code = bytes.number();
  constexpr std::pair<std::uint64_t, const char*> kElements[] = {
      {3, "bf16"}, {4, "f16"}, {5, "f32"}, {6, "f64"}};
  for (const auto& [number, name] : kElements)
    if (number == code) return made({.kind = Kind::kElement, .name = name});
  constexpr std::uint64_t kUnsigned = 2;
  switch (code) {
    case 0: {
      const std::uint64_t how = bytes.number();
      return made({.kind = Kind::kElement,
                   .name = fmt::format("{}{}", (how & 3) == kUnsigned ? "ui" : "i", how >> 2)});
    }
    case 9: {
      const TypePtr part = tables.type(bytes.number());
      return made({.kind = Kind::kElement, .name = fmt::format("complex<{}>", part->name)});
    }
    case 13: {
      Shape shape = shape_of(bytes);
      return made({.kind = Kind::kTensor, .shape = std::move(shape), .element = tables.type(bytes.number())});
    }
    default:
      return made({.name = fmt::format("type {} of MLIR", code)});
  }
}

}  // namespace

AttributePtr decode_attribute(std::string_view dialect, Bytes& bytes, Tables& tables) {
  if (dialect == "vhlo") return vhlo_attribute(bytes, tables);
  if (dialect == "builtin") return builtin_attribute(bytes, tables);
  if (dialect == "sdy") return sdy_attribute(bytes, tables);
  return text_attribute(Attribute::Kind::kOther, fmt::format("an attribute of the dialect '{}'", dialect));
}

TypePtr decode_type(std::string_view dialect, Bytes& bytes, Tables& tables) {
  if (dialect == "vhlo") return vhlo_type(bytes, tables);
  if (dialect == "builtin") return builtin_type(bytes, tables);
  return made({.name = fmt::format("a type of the dialect '{}'", dialect)});
}

std::string Tables::string(std::uint64_t index) const {
  if (index >= strings.size()) fail_damaged("a string is not there");
  return std::string(strings[index]);
}

AttributePtr Tables::attribute(std::uint64_t index) {
  if (index >= attribute_entries.size()) fail_damaged("an attribute is not there");
  attributes_.resize(attribute_entries.size());
  AttributePtr& kept = attributes_[index];
  if (kept != nullptr) return kept;
  const Entry& entry = attribute_entries[index];
  Bytes bytes(entry.bytes);
  if (!entry.encoded) return kept = text_attribute(Attribute::Kind::kOther, std::string(bytes.text()));
  if (++depth_ > kDeepest) fail_damaged("an attribute is part of itself");
  AttributePtr decoded = decode_attribute(dialects.at(entry.dialect), bytes, *this);
  --depth_;
  return attributes_[index] = std::move(decoded);
}

TypePtr Tables::type(std::uint64_t index) {
  if (index >= type_entries.size()) fail_damaged("a type is not there");
  types_.resize(type_entries.size());
  if (types_[index] != nullptr) return types_[index];
  const Entry& entry = type_entries[index];
  Bytes bytes(entry.bytes);
  if (!entry.encoded) return types_[index] = made({.name = std::string(bytes.text())});
  if (++depth_ > kDeepest) fail_damaged("a type is part of itself");
  TypePtr decoded = decode_type(dialects.at(entry.dialect), bytes, *this);
  --depth_;
  return types_[index] = std::move(decoded);
}

}  // namespace lockstep::interop
