// Xids in the kernel's log, /dev/kmsg, which only some users may read.
#pragma once

#include <optional>
#include <vector>

#include "operations/gpu/xid_counts.h"
#include "src/base/file.h"

namespace stepwatch::operations {

class KernelLog {
 public:
  explicit KernelLog(base::FileSystem& files = base::FileSystem::Real()) : files_(files) {}

  // Those since the last call. The first call opens the log, and skips what it has. Empty also if it is not readable.
  std::vector<KernelXid> Read();
  bool is_readable() const { return log_.has_value(); }

 private:
  base::FileSystem& files_;
  bool is_tried_ = false;
  std::optional<base::UniqueFd> log_;
};

}  // namespace stepwatch::operations
