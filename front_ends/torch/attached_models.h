// The attached models and optimizers, their parts as last read, and the optimizers of each parameter. Keeps no model or
// optimizer alive. Step thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "front_ends/torch/model_change.h"
#include "front_ends/torch/model_index.h"
#include "front_ends/torch/model_snapshot.h"
#include "front_ends/torch/optimizer_tap.h"

namespace stepwatch::torch_front {

class AttachedModels {
 public:
  // Does nothing for a model that is attached and alive.
  void AddModel(torch::nn::Module& root);
  void AddOptimizer(OptimizerPoint* point, OptimizerEvents events);
  void ClearOptimizers() { optimizers_.clear(); }
  void NoteStep(size_t optimizer) { optimizers_[optimizer].has_stepped = true; }
  // Detaches optimizers that have stepped if the new ones (positions from `first` on) update all their parameters: the
  // end of their training phase is not announced, and the program may keep the objects. Returns those of which the
  // others update all that is trained at the moment.
  std::vector<size_t> LetGoReplaced(size_t first);

  bool Has(const OptimizerPoint& point) const;
  size_t optimizer_count() const { return optimizers_.size(); }
  bool IsOptimizerAlive(size_t optimizer) const { return optimizers_[optimizer].tap->point() != nullptr; }

  // Lists all parts of living models.
  ModelIndex Read();
  // Some pointer comparisons for each module and parameter. Models that are gone count as unchanged.
  bool IsAsRead() const;
  // A model was destroyed, and this was not reported yet (ForgetLostModels).
  bool HasLostModel() const;
  void ForgetLostModels();

  // For each optimizer: true if the program defines its class, whose step may do more than update.
  std::vector<bool> AreOwn() const;
  // For each parameter the positions of the optimizers that update it.
  Shares SharesOf(const std::vector<at::Tensor>& parameters) const;
  // For each optimizer, dead ones included: true if others update all that it updates.
  std::vector<bool> TakeTurns() const;
  // Counts tensors that optimizers update and that are not in `parameters`.
  size_t CountStrangers(const std::vector<at::Tensor>& parameters) const;

 private:
  struct Chunk {
    torch::nn::Module* root;
    std::weak_ptr<torch::nn::Module> owner;
    bool owned;  // false: no shared_ptr holds this root, and it must live until the last Attach
    ModelSnapshot snapshot{};
    bool is_forgotten = false;

    bool alive() const { return !owned || !owner.expired(); }
  };
  struct Attached {
    std::unique_ptr<OptimizerTap> tap;
    GroupSnapshot groups{};
    bool is_own = false;
    bool has_stepped = false;
  };
  template <class F>
  void EachUpdated(const F& f) const;

  std::vector<Chunk> chunks_;
  std::vector<Attached> optimizers_;
};

// The modules and parameters that now have the places of a known index: null or undefined where there is none.
struct ModelPlaces {
  std::vector<TapPoint*> points;
  std::vector<at::Tensor> parameters;
};
ModelPlaces PlacesOf(const IndexMatch& match, const ModelIndex& fresh);

}  // namespace stepwatch::torch_front
