// Settings of the control socket: options of the program, completed from the environment.
#pragma once

#include <string>

#include "src/base/file_system.h"
#include "stepwatch/options.h"

namespace stepwatch::api {

struct ControlSocketSettings {
  bool is_wanted = true;
  ControlSocketOptions options;
  std::string trouble;  // something in the environment that cannot be used, as a sentence; empty: nothing
};

// A relative path is one of the directory that the process is in at this moment.
ControlSocketSettings SettingsOfControlSocket(const Options& options,
                                              base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::api
