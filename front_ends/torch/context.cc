#include "front_ends/torch/context.h"

#include "front_ends/torch/tensor_view.h"

namespace stepwatch::torch_front {

bool Context::Measure(Monitor& to, SiteKind kind, const Observation& at, const at::Tensor& tensor, Record* record) {
  const SeenTensor seen = See(tensor);
  if (seen.problem != nullptr) reporter.Unmeasurable(kind, seen.problem);
  return to.Measure(at, seen.view, record);
}

void Context::Observe(Monitor& to, SiteKind kind, const Observation& at, const at::Tensor& tensor) {
  Record record;
  if (Measure(to, kind, at, tensor, &record)) to.Enqueue(record);
}

}  // namespace stepwatch::torch_front
