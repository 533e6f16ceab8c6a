#include "front_ends/python/native/returned_parameter.h"

#include <algorithm>
#include <utility>

namespace stepwatch::python {

void ReturnedParameter::OnGradient(PyObject* gradient) noexcept {
  while (!waiting_.empty() && waiting_.front().call->is_over()) waiting_.pop_front();
  if (waiting_.empty()) return;
  const int32_t micro_step = waiting_.front().call->micro_step();
  while (!waiting_.empty() && waiting_.front().call->micro_step() == micro_step) {
    const Waiting first = std::move(waiting_.front());
    waiting_.pop_front();
    first.call->OnOutput(first.element, gradient);
  }
}

void ReturnedParameters::Watch(PyObject* parameter, std::shared_ptr<CallGradients> call, uint16_t element) {
  auto found =
      std::find_if(watched_.begin(), watched_.end(), [&](const Watched& each) { return each.parameter == parameter; });
  if (found == watched_.end()) {
    auto returned = std::make_shared<ReturnedParameter>();
    const Ref hook = MakeCallable(returned);
    Ref handle(hook ? PyObject_CallMethod(parameter, "register_hook", "O", hook.ptr()) : nullptr);
    if (!handle) return ClearError();
    watched_.push_back({parameter, std::move(returned), std::move(handle)});
    found = std::prev(watched_.end());
  }
  found->returned->Expect(std::move(call), element);
}

void ReturnedParameters::Clear() noexcept {
  for (const Watched& each : watched_) (void)CallMethod(each.handle.ptr(), "remove");
  watched_.clear();
}

}  // namespace stepwatch::python
