// SPDX-License-Identifier: Apache-2.0
#include "lockstep/onednn/plan.h"

#include <algorithm>
#include <new>

#include "lockstep/base/fail.h"

namespace lockstep::onednn {
namespace {

/// Ends a computation whose description oneDNN has accepted.
void check(const Library& library, int status, std::string_view what) {
  if (status != 0) fail("{} failed in {} (status {})", library.description, what, status);
}

MemoryDescHandle clone(const Library& library, const MemoryDesc* desc) {
  MemoryDesc* made = nullptr;
  check(library, library.call.memory_desc_clone(&made, desc), "memory_desc_clone");
  return MemoryDescHandle(made);
}

MemoryHandle make_memory(const Library& library, const MemoryDesc* desc, void* data) {
  Memory* made = nullptr;
  check(library, library.call.memory_create(&made, desc, library.engine, data), "memory_create");
  return MemoryHandle(made);
}

}  // namespace

MemoryDescHandle describe(const Library& library, const Layout& layout) {
  MemoryDesc* made = nullptr;
  check(library,
        library.call.memory_desc_create_with_strides(&made, static_cast<int>(layout.sizes.size()),
                                                     layout.sizes.data(), kF32, layout.strides.data()),
        "memory_desc_create_with_strides");
  return MemoryDescHandle(made);
}

MemoryDescHandle describe_any(const Library& library, const Layout& layout) {
  MemoryDesc* made = nullptr;
  check(library,
        library.call.memory_desc_create_with_tag(&made, static_cast<int>(layout.sizes.size()),
                                                 layout.sizes.data(), kF32, kAnyFormat),
        "memory_desc_create_with_tag");
  return MemoryDescHandle(made);
}

Runnable::Runnable(const Library& library, const PrimitiveDesc& desc)
    : library_(library),
      scratchpad_(clone(library, library.call.primitive_desc_query_md(&desc, kScratchpad, 0))) {
  Primitive* made = nullptr;
  check(library, library.call.primitive_create(&made, &desc), "primitive_create");
  primitive_.reset(made);
}

void Runnable::run(std::vector<Argument> arguments) const {
  const Scratch scratch(library_.call.memory_desc_get_size(scratchpad_.get()));
  const MemoryHandle memory = make_memory(library_, scratchpad_.get(), scratch.data());
  arguments.push_back({kArgScratchpad, memory.get()});
  check(library_,
        library_.call.primitive_execute(primitive_.get(), stream_of(library_),
                                        static_cast<int>(arguments.size()), arguments.data()),
        "a primitive");
}

Operand::Operand(const Library& library, MemoryDescHandle callers, const PrimitiveDesc& primitive, int what,
                 bool is_result)
    : library_(library),
      callers_(std::move(callers)),
      primitives_(clone(library, library.call.primitive_desc_query_md(&primitive, what, 0))),
      is_result_(is_result) {
  if (library.call.memory_desc_equal(callers_.get(), primitives_.get()) != 0) return;
  const MemoryDesc *from = callers_.get(), *to = primitives_.get();
  if (is_result) std::swap(from, to);
  PrimitiveDesc* made = nullptr;
  check(library,
        library.call.reorder_primitive_desc_create(&made, from, library.engine, to, library.engine,
                                                   library.attributes),
        "reorder_primitive_desc_create");
  const PrimitiveDescHandle reorder(made);
  copy_.emplace(library, *reorder);
}

std::size_t Operand::primitive_bytes() const { return library_.call.memory_desc_get_size(primitives_.get()); }

MemoryHandle Operand::primitive_memory(void* data) const {
  return make_memory(library_, primitives_.get(), data);
}

void Operand::copy(void* from, void* to) const {
  const MemoryDesc *source = callers_.get(), *target = primitives_.get();
  if (is_result_) std::swap(source, target);
  const MemoryHandle read = make_memory(library_, source, from), written = make_memory(library_, target, to);
  copy_->run({{kArgSource, read.get()}, {kArgDestination, written.get()}});
}

std::optional<Plan> Plan::make(const Library& library, PrimitiveDescHandle primitive,
                               std::vector<MemoryDescHandle> arrays, const std::vector<Role>& roles) {
  const char* implementation = "";
  library.call.primitive_desc_query(primitive.get(), kImplementation, 0, &implementation);
  if (std::string_view(implementation).starts_with("ref")) return std::nullopt;
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    operands.emplace_back(library, std::move(arrays[i]), *primitive, roles[i].what, i + 1 == arrays.size());
  return Plan(Runnable(library, *primitive), std::move(operands), roles);
}

void* Plan::prepare(std::size_t operand, void* data, std::optional<Scratch>& scratch) const {
  const Operand& array = arrays_[operand];
  if (array.is_direct()) return data;
  scratch.emplace(array.primitive_bytes());
  array.copy(data, scratch->data());
  return scratch->data();
}

void Plan::run(void* first, void* second, void* result) const {
  const Operand& last = arrays_.back();
  std::optional<Scratch> scratch;
  void* written = result;
  if (!last.is_direct()) written = scratch.emplace(last.primitive_bytes()).data();
  const MemoryHandle memories[] = {arrays_[0].primitive_memory(first), arrays_[1].primitive_memory(second),
                                   last.primitive_memory(written)};
  std::vector<Argument> arguments;
  for (std::size_t i = 0; i < 3; ++i) arguments.push_back({roles_[i].argument, memories[i].get()});
  primitive_.run(std::move(arguments));
  if (!last.is_direct()) last.copy(written, result);
}

}  // namespace lockstep::onednn
