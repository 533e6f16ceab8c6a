#include "operations/daemon/loss_log.h"

#include "operations/daemon/log.h"

namespace stepwatch::operations {

void LossLog::Write(const std::string& what) {
  if (logged_.size() < kMax && logged_.insert(what).second)
    log_.Write(LogLevel::kWarning, what + "; logged once, counted in /metrics");
}

}  // namespace stepwatch::operations
