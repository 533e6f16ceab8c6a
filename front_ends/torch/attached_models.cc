#include "front_ends/torch/attached_models.h"

#include <c10/util/Type.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace stepwatch::torch_front {

void AttachedModels::AddModel(torch::nn::Module& root) {
  const bool is_known = std::any_of(chunks_.begin(), chunks_.end(),
                                    [&](const Chunk& other) { return other.root == &root && other.alive(); });
  if (is_known) return;
  const std::weak_ptr<torch::nn::Module> owner = OwnerOf(root);
  chunks_.push_back({&root, owner, !owner.expired()});
}

void AttachedModels::AddOptimizer(OptimizerPoint* point, OptimizerEvents events) {
  const bool is_own = c10::demangle(point->watched_type().name()).rfind("torch::optim::", 0) != 0;
  optimizers_.push_back({std::make_unique<OptimizerTap>(point, std::move(events)), {}, is_own});
}

std::vector<bool> AttachedModels::AreOwn() const {
  std::vector<bool> own;
  for (const Attached& each : optimizers_) own.push_back(each.is_own);
  return own;
}

bool AttachedModels::Has(const OptimizerPoint& point) const {
  return std::any_of(optimizers_.begin(), optimizers_.end(),
                     [&](const Attached& each) { return each.tap->point() == &point; });
}

ModelIndex AttachedModels::Read() {
  ModelIndex index;
  for (size_t i = 0; i < chunks_.size(); ++i) {
    if (!chunks_[i].alive()) continue;
    AppendModel(*chunks_[i].root, static_cast<int>(i), &index);
    chunks_[i].snapshot.Take(*chunks_[i].root);
  }
  for (Attached& each : optimizers_)
    if (each.tap->point() != nullptr) each.groups.Take(OptimizerOf(*each.tap->point()));
  return index;
}

bool AttachedModels::IsAsRead() const {
  for (const Chunk& chunk : chunks_)
    if (chunk.alive() && !chunk.snapshot.Describes(*chunk.root)) return false;
  for (const Attached& each : optimizers_)
    if (each.tap->point() != nullptr && !each.groups.Describes(OptimizerOf(*each.tap->point()))) return false;
  return true;
}

bool AttachedModels::HasLostModel() const {
  return std::any_of(chunks_.begin(), chunks_.end(),
                     [](const Chunk& chunk) { return !chunk.is_forgotten && !chunk.alive(); });
}

void AttachedModels::ForgetLostModels() {
  for (Chunk& chunk : chunks_) chunk.is_forgotten = !chunk.alive();
}

// Calls f(optimizer's position, tensor) for each tensor that an optimizer updates.
template <class F>
void AttachedModels::EachUpdated(const F& f) const {
  for (size_t i = 0; i < optimizers_.size(); ++i) {
    if (!IsOptimizerAlive(i)) continue;
    for (const auto& group : OptimizerOf(*optimizers_[i].tap->point()).param_groups())
      for (const at::Tensor& parameter : group.params()) f(i, parameter);
  }
}

std::vector<size_t> AttachedModels::LetGoReplaced(size_t first) {
  std::unordered_set<const void*> fresh;
  EachUpdated([&](size_t each, const at::Tensor& parameter) {
    if (each >= first) fresh.insert(parameter.unsafeGetTensorImpl());
  });
  struct Old {
    bool any = false, has_own = false, trains_own = false;
  };
  std::vector<Old> olds(first);
  EachUpdated([&](size_t each, const at::Tensor& parameter) {
    if (each >= first) return;
    const bool is_own = fresh.count(parameter.unsafeGetTensorImpl()) == 0;
    olds[each].any = true;
    olds[each].has_own |= is_own;
    olds[each].trains_own |= is_own && parameter.requires_grad();
  });
  std::vector<size_t> idle;
  for (size_t i = 0; i < first; ++i) {
    if (!optimizers_[i].has_stepped || !olds[i].any || olds[i].trains_own) continue;
    if (olds[i].has_own)
      idle.push_back(i);
    else
      optimizers_[i].tap->Detach();
  }
  return idle;
}

Shares AttachedModels::SharesOf(const std::vector<at::Tensor>& parameters) const {
  std::unordered_map<const void*, std::vector<size_t>> optimizers_of;
  EachUpdated([&](size_t optimizer, const at::Tensor& parameter) {
    std::vector<size_t>& optimizers = optimizers_of[parameter.unsafeGetTensorImpl()];
    if (optimizers.empty() || optimizers.back() != optimizer) optimizers.push_back(optimizer);
  });
  Shares shares(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto found = optimizers_of.find(parameters[i].unsafeGetTensorImpl());
    if (parameters[i].defined() && found != optimizers_of.end()) shares[i] = found->second;
  }
  return shares;
}

std::vector<bool> AttachedModels::TakeTurns() const {
  std::unordered_map<const void*, size_t> owners;
  EachUpdated([&](size_t, const at::Tensor& parameter) { ++owners[parameter.unsafeGetTensorImpl()]; });
  std::vector<bool> take_turns(optimizers_.size(), true), any(optimizers_.size(), false);
  EachUpdated([&](size_t optimizer, const at::Tensor& parameter) {
    any[optimizer] = true;
    if (owners[parameter.unsafeGetTensorImpl()] < 2) take_turns[optimizer] = false;
  });
  for (size_t i = 0; i < take_turns.size(); ++i) take_turns[i] = take_turns[i] && any[i];
  return take_turns;
}

size_t AttachedModels::CountStrangers(const std::vector<at::Tensor>& parameters) const {
  std::unordered_set<const void*> known;
  for (const at::Tensor& parameter : parameters) known.insert(parameter.unsafeGetTensorImpl());
  size_t strangers = 0;
  EachUpdated(
      [&](size_t, const at::Tensor& parameter) { strangers += known.count(parameter.unsafeGetTensorImpl()) == 0; });
  return strangers;
}

ModelPlaces PlacesOf(const IndexMatch& match, const ModelIndex& fresh) {
  ModelPlaces places;
  for (const size_t at : match.modules) places.points.push_back(at == kNowhere ? nullptr : fresh.points[at]);
  for (const size_t at : match.parameters)
    places.parameters.push_back(at == kNowhere ? at::Tensor() : fresh.parameters[at]);
  return places;
}

}  // namespace stepwatch::torch_front
