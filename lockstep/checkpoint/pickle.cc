// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kDeepestPickle = 100;

constexpr std::array<std::pair<std::string_view, DType>, 12> kStorages{
    {{"torch.FloatStorage", DType::kF32},
     {"torch.DoubleStorage", DType::kF64},
     {"torch.HalfStorage", DType::kF16},
     {"torch.BFloat16Storage", DType::kBF16},
     {"torch.LongStorage", DType::kI64},
     {"torch.IntStorage", DType::kI32},
     {"torch.ShortStorage", DType::kI16},
     {"torch.CharStorage", DType::kI8},
     {"torch.ByteStorage", DType::kU8},
     {"torch.BoolStorage", DType::kBool},
     {"torch.ComplexFloatStorage", DType::kC64},
     {"torch.ComplexDoubleStorage", DType::kC128}}};

constexpr std::array<std::pair<std::string_view, DType>, 17> kDTypes{
    {{"torch.float32", DType::kF32},
     {"torch.float64", DType::kF64},
     {"torch.float16", DType::kF16},
     {"torch.bfloat16", DType::kBF16},
     {"torch.int64", DType::kI64},
     {"torch.int32", DType::kI32},
     {"torch.int16", DType::kI16},
     {"torch.int8", DType::kI8},
     {"torch.uint8", DType::kU8},
     {"torch.uint16", DType::kU16},
     {"torch.uint32", DType::kU32},
     {"torch.uint64", DType::kU64},
     {"torch.bool", DType::kBool},
     {"torch.complex64", DType::kC64},
     {"torch.complex128", DType::kC128},
     {"torch.float8_e4m3fn", DType::kF8E4M3FN},
     {"torch.float8_e5m2", DType::kF8E5M2}}};

constexpr std::string_view kUntyped = "torch.storage.UntypedStorage";
constexpr std::string_view kOrderedDict = "collections.OrderedDict", kSize = "torch.Size";
constexpr std::string_view kTensor2 = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kTensor3 = "torch._utils._rebuild_tensor_v3";
constexpr std::string_view kParameter = "torch._utils._rebuild_parameter";

template <class Table>
std::optional<DType> dtype_in(const Table& table, std::string_view name) {
  for (const auto& [each, dtype] : table)
    if (each == name) return dtype;
  return std::nullopt;
}

bool is_known(std::string_view name) {
  return dtype_in(kStorages, name) || dtype_in(kDTypes, name) || name == kUntyped || name == kOrderedDict ||
         name == kSize || name == kTensor2 || name == kTensor3 || name == kParameter;
}

enum class Kind : std::uint8_t {
  kNone,
  kBool,
  kInteger,
  kReal,
  kText,
  kList,
  kDict,
  kName,
  kStorage,
  kTensor
};

/// Objects refer to others by their number.
using Number = std::uint32_t;

struct Object {
  Kind kind = Kind::kNone;
  bool is_tuple = false;
  std::int64_t integer = 0;  ///< of a storage: its elements, or bytes if it is untyped
  double real = 0;
  std::string text;           ///< of a storage: its key
  std::vector<Number> items;  ///< of a list; of a dict keys and values in turn; of a storage its type; of a
                              ///< tensor what it was made of
};

class Unpickler {
 public:
  Unpickler(std::string_view bytes, const Refusal& refuse) : bytes_(bytes), refuse_(refuse) {
    add(Kind::kNone);
    objects_[add(Kind::kBool)].integer = 0;
    objects_[add(Kind::kBool)].integer = 1;
  }

  Pickled read() {
    while (step()) {
    }
    if (stack_.size() != 1 || !marks_.empty()) damaged("its pickle does not end with one object");
    // Objects may be in several places, and within themselves.
    budget_ = (std::uint64_t{1} << 20) + 16 * std::uint64_t{bytes_.size()};
    collect(stack_[0], "", 0);
    return std::move(result_);
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const { stop(what, false); }
  [[noreturn]] void foreign(const std::string& what) const { stop(what, true); }
  [[noreturn]] void stop(const std::string& what, bool is_foreign) const {
    refuse_(what, is_foreign);
    std::abort();
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) damaged("its pickle ends too early");
    const std::string_view all = bytes_.substr(at_, count);
    at_ += count;
    return all;
  }
  template <class T>
  T take_number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string take_line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) damaged("its pickle ends too early");
    std::string line(take(end - at_));
    ++at_;
    return line;
  }

  Number add(Kind kind) {
    objects_.push_back({kind});
    return static_cast<Number>(objects_.size() - 1);
  }
  void push(Number number) { stack_.push_back(number); }
  void push_integer(std::int64_t value) {
    push(add(Kind::kInteger));
    objects_.back().integer = value;
  }
  void push_text(std::string_view text) {
    push(add(Kind::kText));
    objects_.back().text = text;
  }
  void push_list(std::vector<Number> items, bool is_tuple) {
    push(add(Kind::kList));
    objects_.back().items = std::move(items);
    objects_.back().is_tuple = is_tuple;
  }
  void push_name(const std::string& name) {
    if (!is_known(name)) foreign("it has a " + shown(name));
    push(add(Kind::kName));
    objects_.back().text = name;
  }
  /// Above the last mark, or without one anywhere.
  Number pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) damaged("its pickle has too few objects");
    const Number top = stack_.back();
    stack_.pop_back();
    return top;
  }
  std::vector<Number> pop_to_mark() {
    if (marks_.empty()) damaged("its pickle has too few marks");
    std::vector<Number> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  Object& top(Kind kind) {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) damaged("its pickle has too few objects");
    Object& object = objects_[stack_.back()];
    if (object.kind != kind || object.is_tuple) damaged("its pickle changes what it cannot");
    return object;
  }
  void append(const std::vector<Number>& items) {
    Object& list = top(Kind::kList);
    list.items.insert(list.items.end(), items.begin(), items.end());
  }
  void set(const std::vector<Number>& items) {
    if (items.size() % 2 != 0) damaged("its pickle has a key without a value");
    Object& dict = top(Kind::kDict);
    dict.items.insert(dict.items.end(), items.begin(), items.end());
  }
  void get(Number key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) damaged("its pickle refers to nothing");
    push(found->second);
  }
  void put(Number key) {
    const Number object = pop();
    memo_[key] = object;
    push(object);
  }

  /// Whether it goes on.
  bool step() {
    switch (const auto code = static_cast<unsigned char>(take(1)[0])) {
      case 0x80:  // PROTO
        take(1);
        return true;
      case 0x95:  // FRAME
        take(8);
        return true;
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '.':
        return false;
      case 'N':
        push(0);
        return true;
      case 0x89:  // NEWFALSE
      case 0x88:  // NEWTRUE
        push(code == 0x88 ? 2 : 1);
        return true;
      case 'J':
        push_integer(take_number<std::int32_t>());
        return true;
      case 'K':
        push_integer(take_number<std::uint8_t>());
        return true;
      case 'M':
        push_integer(take_number<std::uint16_t>());
        return true;
      case 0x8a:  // LONG1
        push_long();
        return true;
      case 'G':  // big-endian
        push(add(Kind::kReal));
        objects_.back().real = std::bit_cast<double>(__builtin_bswap64(take_number<std::uint64_t>()));
        return true;
      case 'X':
        push_text(take(take_number<std::uint32_t>()));
        return true;
      case 0x8c:  // SHORT_BINUNICODE
        push_text(take(take_number<std::uint8_t>()));
        return true;
      case 0x8d:  // BINUNICODE8
        push_text(take(take_number<std::uint64_t>()));
        return true;
      case '}':
        push(add(Kind::kDict));
        return true;
      case ']':
        push_list({}, false);
        return true;
      case ')':
        push_list({}, true);
        return true;
      case 't':
        push_list(pop_to_mark(), true);
        return true;
      case 0x85:  // TUPLE1 to TUPLE3
      case 0x86:
      case 0x87: {
        std::vector<Number> items(code - 0x84u);
        for (std::size_t i = items.size(); i-- > 0;) items[i] = pop();
        push_list(std::move(items), true);
        return true;
      }
      case 'a':
        append({pop()});
        return true;
      case 'e':
        append(pop_to_mark());
        return true;
      case 's': {
        const Number value = pop(), key = pop();
        set({key, value});
        return true;
      }
      case 'u':
        set(pop_to_mark());
        return true;
      case 'q':
        put(take_number<std::uint8_t>());
        return true;
      case 'r':
        put(take_number<std::uint32_t>());
        return true;
      case 0x94:  // MEMOIZE
        put(static_cast<Number>(memo_.size()));
        return true;
      case 'h':
        get(take_number<std::uint8_t>());
        return true;
      case 'j':
        get(take_number<std::uint32_t>());
        return true;
      case 'c': {
        const std::string module = take_line();
        push_name(module + "." + take_line());
        return true;
      }
      case 0x93: {  // STACK_GLOBAL
        const Number name = pop(), module = pop();
        push_name(objects_[module].text + "." + objects_[name].text);
        return true;
      }
      case 'Q':  // BINPERSID
        push_storage(pop());
        return true;
      case 'R': {
        const Number arguments = pop(), function = pop();
        call(function, arguments);
        return true;
      }
      case 'b':  // BUILD: the attributes of an OrderedDict
        pop();
        top(Kind::kDict);
        return true;
      default:
        foreign(fmt::format("its pickle has the opcode 0x{:02x}", code));
    }
  }

  void push_long() {
    const std::string_view digits = take(take_number<std::uint8_t>());
    if (digits.size() > 8) foreign("it has a number of more than 64 bits");
    std::uint64_t value = !digits.empty() && (digits.back() & 0x80) ? ~std::uint64_t{0} : 0;
    std::memcpy(&value, digits.data(), digits.size());
    push_integer(static_cast<std::int64_t>(value));
  }

  const Object& item(const Object& list, std::size_t i, Kind kind, const char* what) const {
    if (list.kind != Kind::kList || i >= list.items.size() || objects_[list.items[i]].kind != kind)
      damaged(fmt::format("{} is not as expected", what));
    return objects_[list.items[i]];
  }

  /// ("storage", type, key, device, elements).
  void push_storage(Number tuple) {
    const Object about = objects_[tuple];
    if (item(about, 0, Kind::kText, "a storage").text != "storage") foreign("it refers to something outside");
    Object storage{Kind::kStorage};
    const std::string& type = item(about, 1, Kind::kName, "a storage").text;
    if (type != kUntyped && !dtype_in(kStorages, type)) damaged("a storage has no type");
    storage.text = item(about, 2, Kind::kText, "a storage").text;
    storage.integer = item(about, 4, Kind::kInteger, "a storage").integer;
    if (storage.integer < 0) damaged("a storage has a negative size");
    storage.items = {about.items[1]};
    objects_.push_back(std::move(storage));
    push(static_cast<Number>(objects_.size() - 1));
  }

  void call(Number function, Number arguments) {
    const Object& name = objects_[function];
    const Object& list = objects_[arguments];
    if (name.kind != Kind::kName || list.kind != Kind::kList) damaged("its pickle calls what is no function");
    if (name.text == kOrderedDict) {
      if (!list.items.empty()) foreign("it has an OrderedDict in an old form");
      push(add(Kind::kDict));
    } else if (name.text == kSize) {
      item(list, 0, Kind::kList, "a torch.Size");
      push(list.items[0]);
    } else if (name.text == kParameter) {
      item(list, 0, Kind::kTensor, "a parameter");
      push(list.items[0]);
    } else if (name.text == kTensor2 || name.text == kTensor3) {
      std::vector<Number> items = list.items;
      if (name.text == kTensor3) {
        item(list, 6, Kind::kName, "a tensor's dtype");
      } else {
        items.resize(std::min<std::size_t>(items.size(), 6));
      }
      const Number tensor = add(Kind::kTensor);
      objects_[tensor].items = std::move(items);
      push(tensor);
    } else {
      foreign("it calls " + shown(name.text));
    }
  }

  std::vector<std::int64_t> integers(const Object& list) const {
    std::vector<std::int64_t> all;
    for (std::size_t i = 0; i < list.items.size(); ++i)
      all.push_back(item(list, i, Kind::kInteger, "the shape of a tensor").integer);
    return all;
  }

  /// (storage, offset, shape, strides, requires_grad, hooks[, dtype]).
  void collect_tensor(const Object& object, const std::string& name) {
    Object list{Kind::kList};
    list.items = object.items;
    const Object& storage = item(list, 0, Kind::kStorage, "a tensor");
    PickledTensor tensor;
    tensor.name = name;
    tensor.offset = item(list, 1, Kind::kInteger, "a tensor").integer;
    tensor.shape = integers(item(list, 2, Kind::kList, "a tensor"));
    tensor.strides = integers(item(list, 3, Kind::kList, "a tensor"));
    tensor.storage = storage.text;
    const auto type = dtype_in(kStorages, objects_[storage.items[0]].text);
    const auto dtype =
        list.items.size() > 6 ? dtype_in(kDTypes, item(list, 6, Kind::kName, "a dtype").text) : type;
    if (!dtype) damaged("a tensor has no dtype");
    tensor.dtype = *dtype;
    const auto element = static_cast<std::uint64_t>(size_of(*dtype));
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(storage.integer),
                               type ? std::uint64_t{size_of(*type)} : 1, &tensor.storage_bytes))
      damaged("a storage is too large");
    check_extent(tensor, tensor.storage_bytes / element);
    result_.tensors.push_back(std::move(tensor));
  }

  void check_extent(const PickledTensor& tensor, std::uint64_t stored) const {
    const auto there = static_cast<std::int64_t>(std::min<std::uint64_t>(stored, std::uint64_t{1} << 62));
    std::int64_t elements = 1, last = tensor.offset;
    bool wrong =
        tensor.offset < 0 || tensor.shape.size() != tensor.strides.size() || tensor.shape.size() > 255;
    for (std::size_t d = 0; !wrong && d < tensor.shape.size(); ++d) {
      std::int64_t extent = 0;
      wrong = tensor.shape[d] < 0 || tensor.strides[d] < 0 ||
              __builtin_mul_overflow(elements, std::max<std::int64_t>(tensor.shape[d], 1), &elements) ||
              __builtin_mul_overflow(std::max<std::int64_t>(tensor.shape[d] - 1, 0), tensor.strides[d],
                                     &extent) ||
              __builtin_add_overflow(last, extent, &last);
    }
    const bool empty = !wrong && std::ranges::find(tensor.shape, 0) != tensor.shape.end();
    if (wrong || (!empty && last >= there) || tensor.offset > there || elements > (std::int64_t{1} << 58))
      damaged(fmt::format("the tensor {} does not fit its storage", shown(tensor.name)));
    if (!empty && elements > there)
      foreign(
          fmt::format("the tensor {} has elements more than once (an expanded tensor)", shown(tensor.name)));
  }

  void collect(Number number, const std::string& name, std::size_t depth) {
    const std::uint64_t cost = 1 + name.size();
    if (depth > kDeepestPickle || cost > budget_) foreign("it is nested too deeply");
    budget_ -= cost;
    const Object& object = objects_[number];
    auto within = [&](const std::string& key) { return name.empty() ? key : name + "." + key; };
    auto add_value = [&](Value value) { result_.values[name] = std::move(value); };
    switch (object.kind) {
      case Kind::kNone:
        return;
      case Kind::kBool:
        return add_value(object.integer != 0);
      case Kind::kInteger:
        return add_value(object.integer);
      case Kind::kReal:
        return add_value(object.real);
      case Kind::kText:
        return add_value(object.text);
      case Kind::kList:
        for (std::size_t i = 0; i < object.items.size(); ++i)
          collect(object.items[i], within(std::to_string(i)), depth + 1);
        return;
      case Kind::kDict:
        for (std::size_t i = 0; i < object.items.size(); i += 2) {
          const Object& key = objects_[object.items[i]];
          if (key.kind != Kind::kText && key.kind != Kind::kInteger)
            foreign("a key in it is neither a text nor a number");
          collect(object.items[i + 1],
                  within(key.kind == Kind::kText ? key.text : std::to_string(key.integer)), depth + 1);
        }
        return;
      case Kind::kTensor:
        if (!names_.insert(name).second) damaged("two tensors are called " + shown(name));
        return collect_tensor(object, name);
      case Kind::kName:
      case Kind::kStorage:
        foreign(fmt::format("{} is no tensor", shown(name)));
    }
  }

  const std::string_view bytes_;
  const Refusal& refuse_;
  std::size_t at_ = 0;
  std::vector<Object> objects_;
  std::vector<Number> stack_;
  std::vector<std::size_t> marks_;
  std::map<Number, Number> memo_;
  std::uint64_t budget_ = 0;
  std::set<std::string> names_;
  Pickled result_;
};

}  // namespace

Pickled read_pickle(std::string_view bytes, const Refusal& refuse) { return Unpickler(bytes, refuse).read(); }

}  // namespace lockstep::checkpoint
