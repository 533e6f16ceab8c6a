#include "front_ends/torch/context.h"

#include <utility>

#include "front_ends/torch/call_gradients.h"
#include "front_ends/torch/tensor_view.h"

namespace stepwatch::torch_front {

bool Context::Measure(Recorder& to, SiteKind kind, const Observation& at, const at::Tensor& tensor, Record* record) {
  const SeenTensor seen = See(tensor);
  if (seen.problem != nullptr) reporter.Unmeasurable(kind, seen.problem);
  return to.Measure(at, seen.view, record);
}

void Context::Observe(Recorder& to, SiteKind kind, const Observation& at, const at::Tensor& tensor) {
  Record record;
  if (Measure(to, kind, at, tensor, &record)) to.Enqueue(record);
}

void Context::AddUnfinished(std::shared_ptr<CallGradients> call, size_t count_max) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (unfinished_.size() < count_max) unfinished_.push_back(std::move(call));
}

void Context::FinishCalls() noexcept {
  std::vector<std::shared_ptr<CallGradients>> calls;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls.swap(unfinished_);
  }
  for (const std::shared_ptr<CallGradients>& call : calls) call->Finish();
}

}  // namespace stepwatch::torch_front
