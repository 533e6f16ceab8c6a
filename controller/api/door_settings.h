// What the program and its environment want of the door.
#pragma once

#include <string>

#include "src/base/file_system.h"
#include "stepwatch/options.h"

namespace stepwatch::api {

struct DoorSettings {
  bool is_wanted = true;
  DoorOptions options;
  std::string trouble;  // something in the environment that cannot be used, as a sentence; empty: nothing
};

// A relative path is one of the directory that the process is in at this moment.
DoorSettings SettingsOfDoor(const Options& options, base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::api
