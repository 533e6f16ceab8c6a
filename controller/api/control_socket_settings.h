// Settings of the control socket: options of the program, completed from the environment.
#pragma once

#include <string>

#include "src/base/file_system.h"
#include "stepwatch/options.h"

namespace stepwatch::api {

struct ControlSocketSettings {
  bool is_wanted = true;
  ControlSocketOptions options;
  std::string trouble;  // an unusable environment variable, as a sentence; empty: no error
};

// Relative paths are resolved against the current directory of the process.
ControlSocketSettings SettingsOfControlSocket(const Options& options,
                                              base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::api
