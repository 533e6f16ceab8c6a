// Counts Xids, the fault codes of NVIDIA's driver, which come by two ways: NVML's events and the kernel's log. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace stepwatch::operations {

enum class XidSource : uint8_t { kNvml, kKernel };

class XidCounts {
 public:
  // Two reports, one from each source, within this time are of one fault.
  static constexpr double kSameSeconds = 10;

  // False: the other source has reported it.
  bool Take(XidSource source, const std::string& uuid, int64_t code, double now);
  // By UUID and code.
  std::map<std::pair<std::string, int64_t>, int64_t> Counts() const;

 private:
  struct Entry {
    int64_t count = 0;
    std::array<std::deque<double>, 2> alone;  // by source: reports without one from the other source
  };

  std::map<std::pair<std::string, int64_t>, Entry> entries_;
};

// True: the code alone does not reveal whether the fault is fatal; the kernel's record does.
bool IsEitherFatalOrNot(int64_t code);

struct KernelXid {
  std::string pci;  // see PciAddress
  int64_t code = 0;
  bool is_harmless = false;  // the driver calls it nonfatal

  bool operator==(const KernelXid&) const = default;
};

// From a record of /dev/kmsg, "PRIORITY,NUMBER,TIME,FLAGS;TEXT". Records that a program has written are no such report.
std::optional<KernelXid> ParseKernelXid(std::string_view record_untrusted);

}  // namespace stepwatch::operations
