// One POST to another stepwatchd, over TCP.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "stepwatch/status.h"

namespace stepwatch::operations {

struct UpstreamAddress {
  std::string host;
  std::string port;
};
// Parses "http://HOST:PORT", with or without a final slash.
Result<UpstreamAddress> ParseUpstream(const std::string& url);

// The status of the answer. Blocks for `time` at most, in addition to the look-up of the name. kUnavailable: no answer.
Result<int> PostBeats(const UpstreamAddress& upstream, const std::string& token, const std::string& lines, double sent,
                      std::chrono::seconds time);

}  // namespace stepwatch::operations
