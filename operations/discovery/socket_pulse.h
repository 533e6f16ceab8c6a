// The pulse that the control socket of a job hands over.
#pragma once

#include "operations/discovery/pulse_source.h"

namespace stepwatch::operations {

// See OpenPulse.
Result<std::unique_ptr<PulseReader>> OpenSocketPulse(const std::string& path, std::optional<uid_t> trusted);

}  // namespace stepwatch::operations
