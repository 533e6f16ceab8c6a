// The job's store as a queue of requests that Python threads answer, so that the monitor's own threads never acquire
// the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stepwatch/stores.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stepwatch::python {

void BindStore(nb::module_& m);

namespace {

// A request that a Python thread has fetched. If it is destroyed without an answer, it is answered as failed.
class TakenRequest {
 public:
  explicit TakenRequest(StoreQueue::Request request) : request_(std::move(request)) {}
  TakenRequest(TakenRequest&& other) noexcept
      : request_(std::move(other.request_)), answered_(std::exchange(other.answered_, true)) {}
  ~TakenRequest() {
    if (!answered_) Answer(Status(StatusCode::kInternal, "a request to the job's store was not answered"));
  }

  const char* call() const {
    static constexpr const char* kNames[] = {"set", "get", "set_once", "set_all", "append", "listen"};
    return kNames[static_cast<int>(request_.call)];
  }
  const std::string& key() const { return request_.key; }
  const std::string& value() const { return request_.value; }
  const std::vector<std::string>& keys() const { return request_.keys; }

  void Answer(Store::Answer answer) {
    if (std::exchange(answered_, true)) return;
    const nb::gil_scoped_release release;  // may wait for a lock of the monitor
    request_.done(std::move(answer));
  }

 private:
  StoreQueue::Request request_;
  bool answered_ = false;
};

using Take = std::optional<StoreQueue::Request> (StoreQueue::*)(std::chrono::milliseconds);

template <Take take>
std::optional<TakenRequest> Next(StoreQueue& queue, double timeout) {
  constexpr double kHour = 3600;
  const auto limit = std::chrono::milliseconds(static_cast<int64_t>(std::clamp(timeout, 0.0, kHour) * 1000));
  std::optional<StoreQueue::Request> request;
  {
    const nb::gil_scoped_release release;
    request = (queue.*take)(limit);
  }
  if (!request) return std::nullopt;
  return TakenRequest(std::move(*request));
}

}  // namespace

void BindStore(nb::module_& m) {
  nb::class_<TakenRequest>(m, "StoreRequest", "One request of the monitor to the job's store.")
      .def_prop_ro("call", &TakenRequest::call,
                   "\"set\", \"get\", \"set_once\", \"set_all\", \"append\" or \"listen\".")
      .def_prop_ro("key", &TakenRequest::key)
      .def_prop_ro("value", &TakenRequest::value)
      .def_prop_ro("keys", &TakenRequest::keys, "The keys of \"set_all\".")
      .def(
          "answer", [](TakenRequest& request, std::optional<std::string> value) { request.Answer(std::move(value)); },
          "value"_a.none())
      .def("fail", [](TakenRequest& request, const std::string& why) {
        request.Answer(Status(StatusCode::kUnavailable, why));
      });
  nb::class_<StoreQueue>(m, "StoreQueue", "The requests of the monitor to the job's store; other threads perform them.")
      .def(
          "__init__",
          [](StoreQueue* queue, bool appends, bool listens) {
            new (queue) StoreQueue(Store::Abilities{appends, listens});
          },
          "appends"_a = false, "listens"_a = false)
      .def("next", &Next<&StoreQueue::Next>, "timeout"_a,
           "The next request, or None after `timeout` seconds or when closed.")
      .def("next_listen", &Next<&StoreQueue::NextListen>, "timeout"_a, "The next request that listens, as `next`.")
      .def("stop_listening", &StoreQueue::StopListening, "Report that no connection for listening can be made.")
      .def_prop_ro("closed", &StoreQueue::closed)
      .def("close", &StoreQueue::Close);
}

}  // namespace stepwatch::python
