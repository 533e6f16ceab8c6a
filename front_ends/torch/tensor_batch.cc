#include "front_ends/torch/tensor_batch.h"

#include <utility>

#include "front_ends/torch/tensor_view.h"

namespace stepwatch::torch_front {

void TensorBatch::Reserve(size_t tensors) {
  at_.reserve(tensors);
  views_.reserve(tensors);
  kept_.reserve(tensors);
}

void TensorBatch::Add(Context& context, SiteKind kind, const Observation& at, const at::Tensor& tensor) {
  SeenTensor seen = See(tensor);
  kept_.resize(at_.size());  // an exception may have left one too many
  views_.resize(at_.size());
  if (seen.problem != nullptr) context.reporter.Unmeasurable(kind, seen.problem);
  kept_.push_back(seen.kept.defined() ? std::move(seen.kept) : tensor);
  views_.push_back(seen.view);
  at_.push_back(at);
}

void TensorBatch::Observe(Recorder& recorder) noexcept {
  recorder.ObserveBatch(at_.data(), views_.data(), at_.size());
  kept_.clear();
  views_.clear();
  at_.clear();
}

}  // namespace stepwatch::torch_front
