// Tensors that are measured together: collected one by one, handed to the recorder in one call.
//
// Keeps its memory from batch to batch. Step thread only.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "front_ends/torch/context.h"
#include "stepwatch/recorder.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch::torch_front {

class TensorBatch {
 public:
  void Reserve(size_t tensors);
  // Throws what torch throws, and then holds what it held before.
  void Add(Context& context, SiteKind kind, const Observation& at, const at::Tensor& tensor);
  // Empty afterwards.
  void Observe(Recorder& recorder) noexcept;

 private:
  std::vector<at::Tensor> kept_;  // own the memory that the views show
  std::vector<TensorView> views_;
  std::vector<Observation> at_;  // the last to grow: its size counts
};

}  // namespace stepwatch::torch_front
