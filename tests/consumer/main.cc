#include <lockstep/pjrt/plugin.h>
#include <lockstep/runtime/devices.h>
#include <lockstep/runtime/initialize.h>

#include <cstdio>

int main() {
  lockstep::initialize();
  std::printf("process %d of %d\n", lockstep::process_index(), lockstep::process_count());
  std::printf("plugin %s\n", lockstep::pjrt::find_plugin().c_str());
  std::printf("devices %d\n", lockstep::device_count());
  lockstep::shutdown();
}
