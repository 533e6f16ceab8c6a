// The job's store, as the monitor asks for it and a Python thread answers: that thread takes requests, the monitor's
// own threads never take the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "stepwatch/store.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stepwatch::python {

void BindStore(nb::module_& m);

namespace {

// A request that has been taken. One that nobody answers is answered as failed when it is dropped.
class TakenRequest {
 public:
  explicit TakenRequest(StoreQueue::Request request) : request_(std::move(request)) {}
  TakenRequest(TakenRequest&& other) noexcept
      : request_(std::move(other.request_)), answered_(std::exchange(other.answered_, true)) {}
  ~TakenRequest() {
    if (!answered_) Answer(Status(StatusCode::kInternal, "nobody answered a request to the job's store"));
  }

  const char* call() const {
    static constexpr const char* kNames[] = {"set", "get", "set_once"};
    return kNames[static_cast<int>(request_.call)];
  }
  const std::string& key() const { return request_.key; }
  const std::string& value() const { return request_.value; }

  void Answer(Store::Answer answer) {
    if (std::exchange(answered_, true)) return;
    const nb::gil_scoped_release release;  // it may wait for a lock of the monitor's
    request_.done(std::move(answer));
  }

 private:
  StoreQueue::Request request_;
  bool answered_ = false;
};

std::optional<TakenRequest> Next(StoreQueue& queue, double timeout) {
  constexpr double kMinute = 60;
  const auto limit = std::chrono::milliseconds(static_cast<int64_t>(std::clamp(timeout, 0.0, kMinute) * 1000));
  std::optional<StoreQueue::Request> request;
  {
    const nb::gil_scoped_release release;
    request = queue.Next(limit);
  }
  if (!request) return std::nullopt;
  return TakenRequest(std::move(*request));
}

}  // namespace

void BindStore(nb::module_& m) {
  nb::class_<TakenRequest>(m, "StoreRequest", "One question of the monitor to the job's store.")
      .def_prop_ro("call", &TakenRequest::call, "\"set\", \"get\" or \"set_once\".")
      .def_prop_ro("key", &TakenRequest::key)
      .def_prop_ro("value", &TakenRequest::value)
      .def(
          "answer", [](TakenRequest& request, std::optional<std::string> value) { request.Answer(std::move(value)); },
          "value"_a.none())
      .def("fail", [](TakenRequest& request, const std::string& why) {
        request.Answer(Status(StatusCode::kUnavailable, why));
      });
  nb::class_<StoreQueue>(m, "StoreQueue", "What the monitor asks the job's store, for one thread to perform.")
      .def(nb::init<>())
      .def("next", &Next, "timeout"_a, "The next request, or None after `timeout` seconds or when closed.")
      .def_prop_ro("closed", &StoreQueue::closed)
      .def("close", &StoreQueue::Close);
}

}  // namespace stepwatch::python
