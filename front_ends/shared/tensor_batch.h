// Tensors that are measured together: collected one by one, passed to the recorder in one call. `Handle` owns a tensor.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "stepwatch/recorder.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch::front_end {

template <class Handle>
class TensorBatch {
 public:
  void Reserve(size_t tensors) {
    at_.reserve(tensors);
    views_.reserve(tensors);
    kept_.reserve(tensors);
  }
  // `kept` owns the memory of the view. If this throws, the batch is unchanged.
  void Add(const Observation& at, const TensorView& view, Handle kept) {
    kept_.resize(at_.size());  // an exception may have left one too many
    views_.resize(at_.size());
    kept_.push_back(std::move(kept));
    views_.push_back(view);
    at_.push_back(at);
  }
  bool empty() const { return at_.empty(); }
  void Observe(Recorder& recorder) const noexcept { recorder.ObserveBatch(at_.data(), views_.data(), at_.size()); }
  // Keeps its memory for the next tensors.
  void Clear() noexcept {
    kept_.clear();
    views_.clear();
    at_.clear();
  }

 private:
  std::vector<Handle> kept_;
  std::vector<TensorView> views_;
  std::vector<Observation> at_;  // the last to grow: its size is the size of the batch
};

}  // namespace stepwatch::front_end
