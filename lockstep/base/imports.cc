// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/imports.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <span>

// The dynamic section's relocations name the slots through which a library calls what it imports: "ELF-64
// Object File Format", and the processors' supplements.
namespace lockstep {
namespace {

#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))

#ifdef __x86_64__
constexpr std::uint32_t kCalled = R_X86_64_JUMP_SLOT, kAddressed = R_X86_64_GLOB_DAT, kStored = R_X86_64_64;
#else
constexpr std::uint32_t kCalled = R_AARCH64_JUMP_SLOT, kAddressed = R_AARCH64_GLOB_DAT,
                        kStored = R_AARCH64_ABS64;
#endif

/// The tables that the dynamic section names.
struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  std::span<const ElfW(Rela)> called, others;
};

Tables tables_of(const link_map& library) {
  const ElfW(Rela)* called = nullptr, *others = nullptr;
  std::size_t called_bytes = 0, others_bytes = 0, relative = 0;
  Tables tables;
  for (const ElfW(Dyn)* entry = library.l_ld; entry->d_tag != DT_NULL; ++entry) {
    const auto address = entry->d_un.d_ptr;
    switch (entry->d_tag) {
      case DT_SYMTAB:
        tables.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
        break;
      case DT_STRTAB:
        tables.names = reinterpret_cast<const char*>(address);
        break;
      case DT_JMPREL:
        called = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_PLTRELSZ:
        called_bytes = entry->d_un.d_val;
        break;
      case DT_RELA:
        others = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_RELASZ:
        others_bytes = entry->d_un.d_val;
        break;
      case DT_RELACOUNT:
        relative = entry->d_un.d_val;  // the first ones, which name no symbol
        break;
      default:
        break;
    }
  }
  tables.called = {called, called_bytes / sizeof(ElfW(Rela))};
  const std::span<const ElfW(Rela)> all(others, others_bytes / sizeof(ElfW(Rela)));
  if (relative <= all.size()) tables.others = all.subspan(relative);
  return tables;
}

/// Slots may be read-only since the library was loaded (PT_GNU_RELRO).
bool is_read_only(const link_map& library, std::uintptr_t slot) {
  struct Search {
    ElfW(Addr) base;
    std::uintptr_t slot;
    bool found;
  } search{library.l_addr, slot, false};
  const auto look = [](dl_phdr_info* info, std::size_t, void* data) {
    auto& wanted = *static_cast<Search*>(data);
    if (info->dlpi_addr != wanted.base) return 0;
    for (const ElfW(Phdr) & part : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
      const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
      if (part.p_type == PT_GNU_RELRO && wanted.slot >= begin && wanted.slot < begin + part.p_memsz)
        wanted.found = true;
    }
    return 1;
  };
  dl_iterate_phdr(look, &search);
  return search.found;
}

bool write_slot(const link_map& library, std::uintptr_t slot, void* function) {
  const bool read_only = is_read_only(library, slot);
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* const begin = reinterpret_cast<void*>(slot / page * page);
  if (read_only && mprotect(begin, page, PROT_READ | PROT_WRITE) != 0) return false;
  __atomic_store_n(reinterpret_cast<void**>(slot), function, __ATOMIC_RELEASE);
  if (read_only) mprotect(begin, page, PROT_READ);
  return true;
}

#endif

}  // namespace

bool replace_import(void* library, const char* name, void* function) {
  bool replaced = false;
#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return false;
  const Tables tables = tables_of(*map);
  if (tables.symbols == nullptr || tables.names == nullptr) return false;
  for (const auto& table : {tables.called, tables.others}) {
    for (const ElfW(Rela) & each : table) {
      const auto type = static_cast<std::uint32_t>(ELF64_R_TYPE(each.r_info));
      if (type != kCalled && type != kAddressed && type != kStored) continue;
      const ElfW(Sym)& symbol = tables.symbols[ELF64_R_SYM(each.r_info)];
      if (symbol.st_shndx != SHN_UNDEF || std::strcmp(tables.names + symbol.st_name, name) != 0) continue;
      replaced |= write_slot(*map, map->l_addr + each.r_offset, function);
    }
  }
#else
  static_cast<void>(library), static_cast<void>(name), static_cast<void>(function);
#endif
  return replaced;
}

}  // namespace lockstep
