// One POST to another stepwatchd, or to a collector of metrics, over TCP.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "stepwatch/status.h"

namespace stepwatch::operations {

struct UpstreamAddress {
  std::string host;
  std::string port;
};
// Parses "http://HOST:PORT", with or without a final slash.
Result<UpstreamAddress> ParseUpstream(const std::string& url);

struct PostRequest {
  std::string path;
  std::string content_type;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};
// The status of the answer. Blocks for `time` at most, in addition to the look-up of the name. kUnavailable: no answer.
Result<int> Post(const UpstreamAddress& to, const PostRequest& message, std::chrono::seconds time);

// Likewise, lines sent at `sent`.
Result<int> PostBeats(const UpstreamAddress& upstream, const std::string& token, const std::string& lines, double sent,
                      std::chrono::seconds time);

}  // namespace stepwatch::operations
