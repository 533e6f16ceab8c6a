// What the program and its environment want of the door.
#pragma once

#include <string>

#include "stepwatch/options.h"

namespace stepwatch::api {

struct DoorSettings {
  bool is_wanted = true;
  DoorOptions options;
  std::string trouble;  // something in the environment that cannot be used, as a sentence; empty: nothing
};

DoorSettings SettingsOfDoor(const Options& options);

}  // namespace stepwatch::api
