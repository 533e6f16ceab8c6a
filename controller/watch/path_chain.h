// The directories whose entries decide which file a path leads to, link by link.
//
// A path such as /etc/job/config.json, where config.json -> ..data/config.json and ..data -> ..2024_05 (a Kubernetes
// ConfigMap), changes its file when an entry of /etc/job or of /etc/job/..2024_05 changes; both are in the chain.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/file_system.h"

namespace stepwatch::watch {

struct PathNode {
  std::string path;  // without links, absolute
  uint64_t device = 0;
  uint64_t inode = 0;  // 0: cannot be looked up

  bool operator==(const PathNode&) const = default;
};

struct PathChain {
  // Directories that hold a link on the way or the last entry, in order, each once. If a part of the path is missing,
  // the nearest existing directory is the last one.
  std::vector<PathNode> directories;
  // The file that the path leads to; empty path: there is no such file.
  PathNode target;

  bool operator==(const PathChain&) const = default;
};

// Follows at most 40 links, as the kernel does. Never fails: an incomplete path gives a shorter chain.
PathChain ResolveChain(const std::string& path, base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::watch
