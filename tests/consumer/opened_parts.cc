// SPDX-License-Identifier: Apache-2.0
// opened_parts LIBRARY LIBRARY: opens, calls and closes libraries that have Lockstep within, as plugins of a
// program that knows nothing of it.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace {

int call(const char* path, const char* name) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  auto* const function = reinterpret_cast<int (*)()>(dlsym(library, name));
  const int result = function();
  if (dlclose(library) != 0) std::exit(1);
  return result;
}

}  // namespace

int main(int, char** arguments) {
  const int first = call(arguments[1], "first"), second = call(arguments[2], "second");
  std::printf("first %d, second %d, first again %d\n", first, second, call(arguments[1], "first"));
}
