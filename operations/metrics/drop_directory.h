// Files with metrics that other programs put into a directory, such as the result of a short job. Files are found
// there, not named, so nothing in them is trusted.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/watch/loop_mailbox.h"
#include "operations/metrics/merge_expositions.h"
#include "src/base/file_system.h"
#include "src/base/io_executor.h"
#include "src/http/metric_family.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

struct DropLimits {
  double seconds_max = 3600;  // age of a file
  size_t files = 256;
  size_t file_bytes = size_t{1} << 20;
  size_t bytes = size_t{16} << 20;  // of all
};

struct DropFile {
  std::string name;
  double changed_t = 0;
  std::string text;
};

struct DropFiles {
  std::vector<DropFile> files;  // sorted by name
  size_t bad = 0;               // not readable, torn, or not in the format
  size_t beyond = 0;            // too large, or too many
  size_t old = 0;
};

// Reads NAME.prom files, which end with a line feed and are valid in text format 0.0.4, without times. A file that is
// not costs only itself. `now`: the wall clock.
DropFiles ReadDropDirectory(const std::string& path, const DropLimits& limits, double now,
                            base::FileSystem& files = base::FileSystem::Real());

// Reads the directory again and again on a thread of its own. On the loop's thread.
class DropDirectory {
 public:
  DropDirectory(boost::asio::io_context& loop, std::string path, DropLimits limits);
  ~DropDirectory();
  DropDirectory(const DropDirectory&) = delete;
  DropDirectory& operator=(const DropDirectory&) = delete;

  // Begins to read, unless the last reading still runs.
  void Look(double now);
  // Adds the files that are not too old now to the pages.
  void AddPages(double now, std::vector<ExpositionPage>* pages) const;
  std::vector<http::MetricFamily> Families(double now) const;

 private:
  struct Shared;

  const std::string path_;
  const DropLimits limits_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  const std::shared_ptr<Shared> shared_;  // changed on the loop's thread
  base::IoThread thread_{"stepwatchd-drop"};
};

}  // namespace stepwatch::operations
