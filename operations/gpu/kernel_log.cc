#include "operations/gpu/kernel_log.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace stepwatch::operations {
namespace {

constexpr size_t kRecordBytesMax = 16 << 10;  // a smaller buffer than the record is an error
constexpr int kRecordsMax = 100'000;          // of one call

}  // namespace

std::vector<KernelXid> KernelLog::Read() {
  std::vector<KernelXid> xids;
  const bool skips = !std::exchange(is_tried_, true);
  if (skips) {
    Result<base::UniqueFd> opened = base::Open("/dev/kmsg", O_RDONLY | O_NONBLOCK, 0, files_);
    if (opened.ok()) log_ = std::move(opened).value();
  }
  if (!log_) return xids;
  std::array<char, kRecordBytesMax> bytes{};
  for (int i = 0; i < kRecordsMax; ++i) {
    // Each call returns one record; EPIPE: some were overwritten before they were read.
    const ssize_t size =
        base::RepeatInterrupted([&] { return files_.Read(log_->get(), bytes.data(), bytes.size(), 0); });
    if (size < 0 && errno == EPIPE) continue;
    if (size <= 0) break;
    const auto xid = ParseKernelXid(std::string_view(bytes.data(), static_cast<size_t>(size)));
    if (xid && !skips) xids.push_back(*xid);
  }
  return xids;
}

}  // namespace stepwatch::operations
