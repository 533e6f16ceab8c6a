// The request with lines of logs, as the intake passes it on. On the loop's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/http/handler.h"

namespace stepwatch::operations {

class LogPosts {
 public:
  virtual ~LogPosts() = default;

  struct Post {
    std::string run;              // of all lines that name none; empty: not named
    std::optional<int64_t> rank;  // likewise
    std::string body_untrusted;
  };
  // The answer is 200 once a kill of this process loses no line any more, or at once for a single line. False: too
  // many lines wait.
  virtual bool Take(Post post, http::OnAnswer then) = 0;
};

}  // namespace stepwatch::operations
