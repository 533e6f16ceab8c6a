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
// Of "http://HOST:PORT", with or without a slash behind it.
Result<UpstreamAddress> ParseUpstream(const std::string& url);

// The status of the answer. Blocks, for `time` at most beside the look-up of the name. kUnavailable: nobody answers.
Result<int> PostBeats(const UpstreamAddress& upstream, const std::string& token, const std::string& lines, double sent,
                      std::chrono::seconds time);

}  // namespace stepwatch::operations
