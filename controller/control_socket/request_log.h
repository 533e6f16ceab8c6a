// What was answered to the last requests that change something, by their ids: the same request, sent again, is
// performed once, and whoever did not wait for the answer asks for it later.
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
  // At one time. Each may have a text of a megabyte, and waits for a file system that may hang.
  static constexpr long kUnderWayMax = 32;

  // Begins what no request with this id has begun, and hands the answer to all who ask for it, now or later. `digest`
  // tells requests apart: the same id with another one is refused. An answer that asks to try again is not kept.
  // `is_urgent`: however many are under way.
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

  // Nothing: the answer comes later, to `then`, or the request is to be begun.
  bool IsBegun(const std::string& id, const std::string& digest, const OnAnswer& then, bool is_urgent,
               http::Answer* answer);
  void Finish(const std::string& id, const http::Answer& answer);
  bool IsFull() const { return under_way_.use_count() > kUnderWayMax; }

  const std::shared_ptr<int> under_way_ = std::make_shared<int>(0);  // each request under way shares it
  base::Mutex mutex_;
  std::map<std::string, Entry> entries_ STEPWATCH_GUARDED_BY(mutex_);
  std::deque<std::string> answered_ STEPWATCH_GUARDED_BY(mutex_);  // oldest first
};

// Why the request is refused, whatever its answer would be. A control socket that lets more people read lets nobody
// else write; whoever is known by another rank's control socket has been looked at there.
std::optional<http::Answer> WhyNot(const Route& route, const Request& request);
// Begins what a route is asked for. `then` is called once, also if nobody has an answer.
void BeginRequest(const Route& route, const Request& request, Job& job, RequestLog& log, OnAnswer then);

}  // namespace stepwatch::control_socket
