// Answers requests with lines of logs, once their records are safe.
//
// On the loop's thread.
#pragma once

#include <memory>

#include "operations/intake/log_posts.h"
#include "operations/log_intake/sent_line_reader.h"

namespace stepwatch::operations {

class HttpLogs final : public LogPosts {
 public:
  // `reader` must outlive it.
  explicit HttpLogs(SentLineReader* reader) : reader_(*reader) {}

  bool Take(Post post, http::OnAnswer then) override;
  int64_t refused() const { return *refused_; }

 private:
  SentLineReader& reader_;
  const std::shared_ptr<int64_t> refused_ = std::make_shared<int64_t>(0);
};

}  // namespace stepwatch::operations
