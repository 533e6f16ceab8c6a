// The position of a process in its training, from its pulse.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operations/vocabulary/names.h"
#include "src/base/process_identity.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

// Written by another process: only its types are checked.
struct PulseLook {
  base::ProcessIdentity process;
  std::string run;
  int64_t rank = 0;
  int64_t world = 1;
  std::optional<int64_t> step;    // finished last
  std::optional<double> step_at;  // time by the system's clock in seconds
  RunPhase phase = RunPhase::kInit;
  std::string module;    // entered last; empty: unknown
  int64_t signal = 0;    // recorded last; 0: none
  uint64_t signals = 0;  // how many
  std::optional<EndReason> end;
  uint64_t words = 0;  // number of its last words, which outlive the process

  bool operator==(const PulseLook&) const = default;
};

struct LastWordLine {
  uint64_t number = 0;  // of the beat line
  std::string json;
};

// The pulse of one process, which stays readable after its death.
class PulseReader {
 public:
  virtual ~PulseReader() = default;
  virtual Result<PulseLook> Look() const = 0;
  virtual std::vector<LastWordLine> LastWords() const = 0;
  // True if the names of modules must be read again.
  virtual bool IsOutdated() const = 0;
};

// Opens the pulse of the control socket at a path. Blocks: for a thread that may wait. `trusted`: see http::Client.
using OpenPulse =
    std::function<Result<std::unique_ptr<PulseReader>>(const std::string& path, std::optional<uid_t> trusted)>;

// See OpenPulse.
Result<std::unique_ptr<PulseReader>> OpenSocketPulse(const std::string& path, std::optional<uid_t> trusted);

}  // namespace stepwatch::operations
