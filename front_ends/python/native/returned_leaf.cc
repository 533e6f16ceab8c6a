#include "front_ends/python/native/returned_leaf.h"

#include <algorithm>
#include <utility>

namespace stepwatch::python {
void ReturnedLeaf::OnGradient(PyObject* gradient) noexcept {
  while (!waiting_.empty() && waiting_.front().call->is_over()) waiting_.pop_front();
  if (waiting_.empty()) return;
  const int32_t micro_step = waiting_.front().call->micro_step();
  while (!waiting_.empty() && waiting_.front().call->micro_step() == micro_step) {
    const GradientPlace first = std::move(waiting_.front());
    waiting_.pop_front();
    first.Deliver(gradient);
  }
}

// Also removes destroyed leaves: another tensor may have their address.
ReturnedLeaves::Watched* ReturnedLeaves::Find(PyObject* leaf) {
  std::erase_if(watched_, [](const Watched& each) { return !Target(each.leaf); });
  const auto found =
      std::find_if(watched_.begin(), watched_.end(), [&](const Watched& each) { return Target(each.leaf).is(leaf); });
  return found == watched_.end() ? nullptr : &*found;
}

void ReturnedLeaves::Watch(PyObject* leaf, bool is_parameter, GradientPlace place) {
  Watched* watched = Find(leaf);
  if (watched == nullptr) {
    auto returned = std::make_shared<ReturnedLeaf>();
    const Ref hook = MakeCallable(returned);
    Ref reference(PyWeakref_NewRef(leaf, nullptr));
    Ref handle(hook && reference ? PyObject_CallMethod(leaf, "register_hook", "O", hook.ptr()) : nullptr);
    if (!handle) return ClearError();
    watched_.push_back({std::move(reference), is_parameter, std::move(returned), std::move(handle)});
    watched = &watched_.back();
  }
  watched->returned->Expect(std::move(place));
}

void ReturnedLeaves::EndStep() noexcept {
  std::erase_if(watched_, [](const Watched& each) {
    each.returned->Forget();
    if (!each.is_parameter) (void)CallMethod(each.handle.ptr(), "remove");
    return !each.is_parameter;
  });
}

void ReturnedLeaves::Clear() noexcept {
  for (const Watched& each : watched_) (void)CallMethod(each.handle.ptr(), "remove");
  watched_.clear();
}

}  // namespace stepwatch::python
