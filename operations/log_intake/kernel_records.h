// Reads /dev/kmsg, the log of this machine's kernel. It blocks as little as the device does.
//
// The position is kept with the identity of the boot, so that no record is passed on twice or left out over a restart.
// Records that a program has written are left out: they are no reports of the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operations/log_intake/sent_line.h"
#include "src/base/file.h"

namespace stepwatch::operations {

struct KernelRecord {
  int64_t number = 0;
  double seconds = 0;  // since the boot
  int priority = 0;    // 0 (emergency) to 7 (debug)
  std::string text;
};
// From "PRIORITY,NUMBER,TIME,FLAGS;TEXT". Nullopt: another form, or a record of a program. Pure.
std::optional<KernelRecord> ParseKernelRecord(std::string_view record_untrusted);

struct KernelBatch {
  std::vector<SentLine> lines;
  size_t bytes = 0;
  std::string position;  // to be kept
  bool is_readable = true;
  int64_t overruns = 0;  // times that records were overwritten before they were read
};

class KernelRecords {
 public:
  static constexpr const char* kDevice = "/dev/kmsg";

  // `position`: as kept, or empty: records from before the first call are skipped.
  KernelRecords(std::string position, base::FileSystem& files) : position_(std::move(position)), files_(files) {}

  // Those since the last call. `now`: seconds of the wall clock; `since_boot`: of the clock that the kernel uses.
  KernelBatch Read(double now, double since_boot);

 private:
  static constexpr size_t kRecordsMax = 4096;  // of one batch

  void Open();

  const std::string position_;
  base::FileSystem& files_;
  std::optional<base::UniqueFd> device_;
  std::string boot_;
  std::optional<int64_t> last_;  // number of the last record that was passed on
};

}  // namespace stepwatch::operations
