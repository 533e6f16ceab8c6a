// The events of `stepwatch watch`, made from the watcher's snapshots. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "controller/watch/file_snapshot.h"
#include "src/config/config.h"

namespace stepwatch::cli {

struct WatchEvent {
  enum class Kind : uint8_t {
    kAccepted,    // these bytes are a valid config, perhaps with warnings
    kRefused,     // these bytes are not, with the reason at line and column
    kMissing,     // no file
    kUnreadable,  // the file exists, but cannot be read
    kRestored,    // the last accepted bytes are back after one of the three before
  };

  Kind kind = Kind::kAccepted;
  std::string sha256;  // of the whole file; empty: not read
  int64_t bytes = -1;  // -1: not read
  int line = 0;        // 0: no place
  int column = 0;
  std::string error;
  std::vector<config::Warning> warnings;  // kAccepted, kRestored
};

const char* WatchEventName(WatchEvent::Kind kind);  // "accepted", "refused", ...

// One object per line, without the newline. Fields that do not apply are left out; bytes that are not UTF-8 are
// replaced. In ToHumanLine each warning has a line of its own.
std::string ToJsonLine(const WatchEvent& event, double seconds);
std::string ToHumanLine(const WatchEvent& event, double seconds);

class WatchEvents {
 public:
  // Called for each look passed on by a Watcher (kUnstable never is).
  WatchEvent OnChange(const watch::FileSnapshot& snapshot);

 private:
  std::string accepted_;  // hash of the bytes accepted last
  bool is_troubled_ = false;
};

}  // namespace stepwatch::cli
