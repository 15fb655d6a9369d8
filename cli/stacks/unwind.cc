// SPDX-License-Identifier: Apache-2.0
#include "cli/stacks/unwind.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fmt/format.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

#include "cli/stacks/names.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::string base_name(std::string_view path) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  return std::string(path.substr(path.rfind('/') + 1));
}

/// The program's file.
std::string program_of(int pid) {
  char path[PATH_MAX] = {};
  const ssize_t size = readlink(fmt::format("/proc/{}/exe", pid).c_str(), path, sizeof path - 1);
  return size < 0 ? "" : std::string(path, static_cast<std::size_t>(size));
}

/// Debug information that stands in a file of its own. libdwfl's own search would also ask servers on the
/// network (DEBUGINFOD_URLS).
int find_debug_file(Dwfl_Module* module, void** user_data, const char* name, Dwarf_Addr base,
                    const char* file_name, const char* link_file, GElf_Word link_checksum, char** found) {
  return dwfl_build_id_find_debuginfo(module, user_data, name, base, file_name, link_file, link_checksum,
                                      found);
}

/// The name that the debug information has for a function, or for one that was inlined.
std::string name_of(Dwarf_Die* function) {
  Dwarf_Attribute attribute;
  for (const unsigned kind : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    if (dwarf_attr_integrate(function, kind, &attribute) == nullptr) continue;
    if (const char* name = dwarf_formstring(&attribute)) return function_name(name);
  }
  const char* name = dwarf_diename(function);
  if (name == nullptr) return "";
  // A lambda's has no name for the linker.
  return std::string_view(name) == "operator()" ? "{lambda}" : short_name(name);
}

struct ByFree {
  void operator()(void* pointer) const { std::free(pointer); }
};

class Unwinder {
 public:
  Unwinder(int pid, const Snapshot& snapshot, int most_frames, Clock::time_point deadline)
      : snapshot_(snapshot),
        most_frames_(most_frames),
        deadline_(deadline),
        program_(program_of(pid)),
        dwfl_(dwfl_begin(&kFileCallbacks)) {
    if (dwfl_ == nullptr || dwfl_linux_proc_report(dwfl_.get(), pid) != 0 ||
        dwfl_report_end(dwfl_.get(), nullptr, nullptr) != 0 ||
        !dwfl_attach_state(dwfl_.get(), nullptr, pid, &kThreadCallbacks, this)) {
      fail();
    }
  }

  Unwound unwind(const ThreadSnapshot& thread) {
    Unwound result;
    if (!thread.taken) {
      result.missing = "it did not stop to be looked at";
      return result;
    }
    if (!failure_.empty()) {
      result.missing = failure_;
      return result;
    }
    thread_ = &thread;
    unwound_ = &result;
    const int status = dwfl_getthread_frames(dwfl_.get(), thread.tid, &frame, this);
    // At a whole stack's end libdwfl either knows that it is, or finds no way on from the first function.
    if (status == -1 && result.missing.empty() && !at_start(result)) {
      result.missing = thread.stack.size() >= kWholeCopy ? "the stack is deeper than what was copied of it"
                                                         : "no way to its caller was found";
    }
    return result;
  }

 private:
  static constexpr std::size_t kWholeCopy = 1 << 20;
  static const Dwfl_Callbacks kFileCallbacks;
  static const Dwfl_Thread_Callbacks kThreadCallbacks;

  struct End {
    void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
  };

  void fail() { failure_ = fmt::format("libdw cannot read the program's files: {}", dwfl_errmsg(-1)); }

  static bool at_start(const Unwound& unwound) {
    if (unwound.frames.empty()) return false;
    const std::string& last = unwound.frames.back().function;
    return last == "_start" || last == "clone" || last == "clone3" || last == "__clone3";
  }

  static pid_t next_thread(Dwfl*, void* self, void** position) {
    // The position is the number of the one before, from 1.
    const auto& threads = static_cast<Unwinder*>(self)->snapshot_.threads;
    const auto next = reinterpret_cast<std::uintptr_t>(*position);
    if (next >= threads.size()) return 0;
    *position = reinterpret_cast<void*>(next + 1);
    return threads[next].tid;
  }

  static bool get_thread(Dwfl*, pid_t tid, void* self, void** argument) {
    *argument = self;
    return static_cast<Unwinder*>(self)->thread_->tid == tid;
  }

  static bool set_registers(Dwfl_Thread* thread, void* self) {
    const ThreadSnapshot& from = *static_cast<Unwinder*>(self)->thread_;
    const std::vector<Dwarf_Word> registers(from.registers.begin(), from.registers.end());
    if (!dwfl_thread_state_registers(thread, 0, static_cast<unsigned>(registers.size()), registers.data()))
      return false;
    dwfl_thread_state_register_pc(thread, from.pc);
    return true;
  }

  static bool read_memory(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* self) {
    const ThreadSnapshot& from = *static_cast<Unwinder*>(self)->thread_;
    if (address < from.stack_start || from.stack.size() < sizeof *word ||
        address - from.stack_start > from.stack.size() - sizeof *word)
      return false;
    std::memcpy(word, from.stack.data() + (address - from.stack_start), sizeof *word);
    return true;
  }

  static int frame(Dwfl_Frame* state, void* self) { return static_cast<Unwinder*>(self)->add(state); }

  int add(Dwfl_Frame* state) {
    Dwarf_Addr pc = 0;
    bool innermost = false;
    if (!dwfl_frame_pc(state, &pc, &innermost)) return DWARF_CB_ABORT;
    if (static_cast<int>(unwound_->frames.size()) >= most_frames_) {
      unwound_->missing = fmt::format("only the innermost {} functions are told", most_frames_);
      return DWARF_CB_ABORT;
    }
    if (Clock::now() >= deadline_) {
      unwound_->missing = "there was no time to tell more";
      return DWARF_CB_ABORT;
    }
    // A return address stands behind the call, where another function may begin.
    const Dwarf_Addr at = pc - (innermost ? 0 : 1);
    const MemoryRange* range = range_at(snapshot_.memory, at);
    if (range == nullptr || !range->executable) {
      unwound_->missing = "no way to its caller was found";
      return DWARF_CB_ABORT;
    }
    // Generated code lies in no file or in one that has no name. libdwfl takes whatever lies between two
    // mappings of a file for a part of the file.
    const bool generated = range->file.empty() || range->file.starts_with("/memfd:");
    Dwfl_Module* module = generated ? nullptr : dwfl_addrmodule(dwfl_.get(), at);
    if (module == nullptr) {
      unwound_->frames.emplace_back();
      return DWARF_CB_OK;
    }
    const std::string_view path =
        dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    Frame frame{.function = symbol_at(module, at), .module = base_name(path), .of_program = path == program_};
    if (add_with_lines(module, at, frame)) return DWARF_CB_OK;
    unwound_->frames.push_back(std::move(frame));
    return DWARF_CB_OK;
  }

  static std::string symbol_at(Dwfl_Module* module, Dwarf_Addr at) {
    GElf_Off offset = 0;
    GElf_Sym symbol;
    const char* name = dwfl_module_addrinfo(module, at, &offset, &symbol, nullptr, nullptr, nullptr);
    return name == nullptr ? "" : function_name(name);
  }

  /// Adds the function at this address, and before it those inlined there, by the debug information; false
  /// where there is none.
  bool add_with_lines(Dwfl_Module* module, Dwarf_Addr at, const Frame& like) {
    Dwarf_Addr bias = 0;
    Dwarf_Die* unit = dwfl_module_addrdie(module, at, &bias);
    if (unit == nullptr) return false;
    Dwarf_Die* found = nullptr;
    const int in_source = dwarf_getscopes(unit, at - bias, &found);
    const std::unique_ptr<Dwarf_Die, ByFree> owner(found);
    Dwarf_Die* innermost = nullptr;
    for (int i = 0; i < in_source && innermost == nullptr; ++i) {
      if (is_function(&found[i])) innermost = &found[i];
    }
    if (innermost == nullptr) return false;
    Dwarf_Die* around = nullptr;
    const int count = dwarf_getscopes_die(innermost, &around);
    const std::unique_ptr<Dwarf_Die, ByFree> owner_around(around);
    if (count <= 0) return false;

    // Where in the innermost function; then where each was called.
    std::string file;
    int line = 0;
    if (Dwfl_Line* here = dwfl_module_getsrc(module, at)) {
      if (const char* name = dwfl_lineinfo(here, nullptr, &line, nullptr, nullptr, nullptr)) file = name;
    }
    std::vector<Frame> frames;
    for (int i = 0; i < count; ++i) {
      if (!is_function(&around[i])) continue;
      Frame frame = like;
      const bool inlined = dwarf_tag(&around[i]) == DW_TAG_inlined_subroutine;
      if (inlined || frame.function.empty()) frame.function = name_of(&around[i]);
      frame.file = file;
      frame.line = line;
      frames.push_back(std::move(frame));
      if (!inlined) {
        unwound_->frames.insert(unwound_->frames.end(), frames.begin(), frames.end());
        return true;
      }
      std::tie(file, line) = call_of(unit, &around[i]);
    }
    return false;
  }

  static bool is_function(Dwarf_Die* die) {
    const int tag = dwarf_tag(die);
    return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_entry_point;
  }

  /// Where an inlined function was called.
  static std::pair<std::string, int> call_of(Dwarf_Die* unit, Dwarf_Die* inlined) {
    std::pair<std::string, int> place;
    Dwarf_Attribute attribute;
    Dwarf_Word value = 0;
    if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &value) == 0)
      place.second = static_cast<int>(value);
    Dwarf_Files* files = nullptr;
    std::size_t count = 0;
    if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &value) == 0 &&
        dwarf_getsrcfiles(unit, &files, &count) == 0 && value < count) {
      if (const char* name = dwarf_filesrc(files, value, nullptr, nullptr)) place.first = name;
    }
    return place;
  }

  const Snapshot& snapshot_;
  const int most_frames_;
  const Clock::time_point deadline_;
  const std::string program_;
  std::string failure_;
  const ThreadSnapshot* thread_ = nullptr;
  Unwound* unwound_ = nullptr;
  std::unique_ptr<Dwfl, End> dwfl_;
};

const Dwfl_Callbacks Unwinder::kFileCallbacks = {.find_elf = &dwfl_linux_proc_find_elf,
                                                 .find_debuginfo = &find_debug_file,
                                                 .section_address = nullptr,
                                                 .debuginfo_path = nullptr};

const Dwfl_Thread_Callbacks Unwinder::kThreadCallbacks = {.next_thread = &next_thread,
                                                          .get_thread = &get_thread,
                                                          .memory_read = &read_memory,
                                                          .set_initial_registers = &set_registers,
                                                          .detach = nullptr,
                                                          .thread_detach = nullptr};

}  // namespace

std::vector<Unwound> unwind(int pid, const Snapshot& snapshot, int most_frames, Clock::time_point deadline) {
  Unwinder unwinder(pid, snapshot, most_frames, deadline);
  std::vector<Unwound> result;
  for (const ThreadSnapshot& thread : snapshot.threads) result.push_back(unwinder.unwind(thread));
  return result;
}

}  // namespace lockstep::cli
