#include "src/logs/xid.h"

#include <cstdlib>

namespace stepwatch::logs {

XidMeaning MeaningOfXid(const std::vector<std::pair<std::string, std::string>>& facts, std::string_view message) {
  int code = 0;
  for (const auto& [name, value] : facts)
    if (name == "xid") code = std::atoi(value.c_str());
  switch (code) {
    case 13:  // exceptions of a kernel: an illegal address, an illegal instruction
    case 31:
    case 43:
    case 68:
    case 69: return {"xid_app", Role::kRoot};
    case 45:  // the driver cleans up after a program that ended, or after an earlier Xid
      return {"xid_app", Role::kCascade};
    case 48:
    case 94:  // contained: it ended one program only
    case 95:
    case 140:
    case 171:
    case 172: return {"ecc_uncorrectable", Role::kRoot};
    case 63:  // a row was remapped, or will be at the next reset
    case 92: return {"ecc_repaired", Role::kNotice};
    case 64: return {"row_remap_fail", Role::kRoot};
    case 74:
    case 144:
    case 145:
    case 146:
    case 147:
    case 148:
    case 149:
    case 150:
      if (message.find("Nonfatal") != std::string_view::npos) return {"nvlink_error", Role::kNotice};
      return {"nvlink_error", Role::kRoot};
    case 79: return {"gpu_lost", Role::kRoot};
    case 154:  // names the action of recovery after another Xid
      return {"gpu_hw_fault", Role::kSymptom};
    default: return {"gpu_hw_fault", Role::kRoot};
  }
}

}  // namespace stepwatch::logs
