// Answers to recent changing requests, by request id: a request that is sent again is performed once, and a client that
// did not wait for the answer can fetch it later.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/control_socket/routes.h"
#include "src/base/mutex.h"
#include "src/http/answers.h"

namespace stepwatch::control_socket {

// Any thread.
class RequestLog : public std::enable_shared_from_this<RequestLog> {
 public:
  static constexpr size_t kAnswersMax = 256;
  // Maximum at one time. Each may have a text of a megabyte, and waits for a file system that may hang.
  static constexpr long kUnderWayMax = 32;

  // Calls `begin` unless a request with this id has begun, and delivers the answer to every caller with this id, now or
  // later. `digest` identifies the request: the same id with another digest is rejected. An answer that requests a
  // retry is not kept. `is_urgent`: exempt from kUnderWayMax.
  void Perform(const std::string& id, const std::string& digest, OnAnswer then,
               const std::function<void(OnAnswer)>& begin, bool is_urgent = false);
  // The same for a request without an id.
  void Perform(OnAnswer then, const std::function<void(OnAnswer)>& begin, bool is_urgent = false);

 private:
  struct Entry {
    std::string digest;
    bool is_answered = false;
    http::Answer answer;
    std::vector<OnAnswer> waiting;
  };

  // Nullopt: the answer is delivered to `then` later, or the request must be begun.
  bool IsBegun(const std::string& id, const std::string& digest, const OnAnswer& then, bool is_urgent,
               http::Answer* answer);
  void Finish(const std::string& id, const http::Answer& answer);
  bool IsFull() const { return under_way_.use_count() > kUnderWayMax; }

  const std::shared_ptr<int> under_way_ = std::make_shared<int>(0);  // one reference for each request in progress
  base::Mutex mutex_;
  std::map<std::string, Entry> entries_ STEPWATCH_GUARDED_BY(mutex_);
  std::deque<std::string> answered_ STEPWATCH_GUARDED_BY(mutex_);  // oldest first
};

// The reason to reject the request before it is performed; nullopt: it is allowed. A readers' group does not get write
// access. A request that another rank forwarded was checked by its control socket.
std::optional<http::Answer> WhyNot(const Route& route, const Request& request);
// Begins the request of a route. `then` is called once, even if the request produces no answer.
void BeginRequest(const Route& route, const Request& request, Job& job, RequestLog& log, OnAnswer then);

}  // namespace stepwatch::control_socket
