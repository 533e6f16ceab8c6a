// The owner and the partition of this job, as its scheduler names them: Slurm by environment variables, Kubernetes by
// the labels of the pod.
#pragma once

#include <functional>
#include <string>

#include "src/base/file_system.h"

namespace stepwatch::control_socket {

struct JobOwner {
  static constexpr size_t kBytesMax = 200;

  std::string owner;      // empty: not known
  std::string partition;  // likewise
};

// `variable` returns the value of an environment variable, or null. Reads the file of labels only for a value that no
// variable has. Does not fail: an unreadable file has no labels.
JobOwner FindJobOwner(const std::function<const char*(const char* name)>& variable,
                      base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::control_socket
