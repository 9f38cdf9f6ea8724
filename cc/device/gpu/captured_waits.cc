#include "cc/device/gpu/captured_waits.h"

#include <cstdlib>
#include <fstream>

namespace tensorbow {

std::string EventsPassedFile() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  std::string folder;
  if (cache != nullptr && *cache != '\0') {
    folder = cache;
  } else if (home != nullptr && *home != '\0') {
    folder = std::string(home) + "/.cache";
  } else {
    return "";
  }
  return folder + "/tensorbow/gpu_events_passed";
}

bool EventsHavePassed(const std::string& file, int driver_version) {
  std::ifstream content(file);
  std::string key;
  int version = 0;
  while (content >> key >> version) {
    if (key == "driver" && version == driver_version) return true;
  }
  return false;
}

}  // namespace tensorbow
