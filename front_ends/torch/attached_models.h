// The models and optimizers that are attached, what they consisted of when they were read last, and which parameter
// belongs to which optimizer. Keeps none of them alive. Step thread.
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
  // Lets those go that have stepped and of which others, which come now and have the positions from `first` on, update
  // all that they update: nobody says that a training phase of theirs is over, and the program may keep them. Returns
  // those of which the others update all that is trained at the moment.
  std::vector<size_t> LetGoReplaced(size_t first);

  bool Has(const OptimizerPoint& point) const;
  size_t optimizer_count() const { return optimizers_.size(); }
  bool IsOptimizerAlive(size_t optimizer) const { return optimizers_[optimizer].tap->point() != nullptr; }

  // Lists all that is alive.
  ModelIndex Read();
  // Some pointer comparisons for each module and parameter. Models that are gone count as unchanged.
  bool IsAsRead() const;
  // A model has been destroyed, and nobody has told (ForgetLostModels).
  bool HasLostModel() const;
  void ForgetLostModels();

  // For each optimizer whether its class is the program's own, whose step may do more than to update.
  std::vector<bool> AreOwn() const;
  // For each parameter the positions of the optimizers that update it.
  Shares SharesOf(const std::vector<at::Tensor>& parameters) const;
  // For each optimizer, dead ones included, whether others update all that it updates.
  std::vector<bool> TakeTurns() const;
  // The tensors that optimizers update and that are none of these.
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

// The modules and parameters that stand now in the places of a known index: null and undefined where nothing does.
struct ModelPlaces {
  std::vector<TapPoint*> points;
  std::vector<at::Tensor> parameters;
};
ModelPlaces PlacesOf(const IndexMatch& match, const ModelIndex& fresh);

}  // namespace stepwatch::torch_front
