// What was answered to the last requests that change something, by their ids: the same request, sent again, is
// performed once, and whoever did not wait for the answer asks for it later.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controller/door/routes.h"
#include "src/base/mutex.h"

namespace stepwatch::door {

// Any thread.
class RequestLog : public std::enable_shared_from_this<RequestLog> {
 public:
  // Answers that are kept, and requests that may be under way.
  static constexpr size_t kRequestsMax = 256;

  // Begins what no request with this id has begun, and hands the answer to all who ask for it, now or later. `digest`
  // tells requests apart: the same id with another one is refused. An answer that asks to try again is not kept.
  void Perform(const std::string& id, const std::string& digest, OnAnswer then,
               const std::function<void(OnAnswer)>& begin);

 private:
  struct Entry {
    std::string digest;
    bool is_answered = false;
    Answer answer;
    std::vector<OnAnswer> waiting;
  };

  // Nothing: the answer comes later, to `then`, or the request is to be begun.
  bool IsBegun(const std::string& id, const std::string& digest, const OnAnswer& then, Answer* answer);
  void Finish(const std::string& id, const Answer& answer);

  base::Mutex mutex_;
  std::map<std::string, Entry> entries_ STEPWATCH_GUARDED_BY(mutex_);
  std::deque<std::string> answered_ STEPWATCH_GUARDED_BY(mutex_);  // oldest first
};

// Begins what a route with Way::kLater is asked for. `then` is called once, also if nobody has an answer.
void BeginRequest(const Route& route, const Request& request, Job& job, RequestLog& log, OnAnswer then);

}  // namespace stepwatch::door
