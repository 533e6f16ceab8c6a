#include "front_ends/torch/module_taps.h"

#include <algorithm>
#include <string>
#include <utility>

namespace stepwatch::torch_front {

void ModuleTaps::Build(const ModelIndex& index) {
  taps_.clear();
  chunks_.clear();
  std::shared_ptr<StepCounter> root_entries;
  for (size_t i = 0; i < index.points.size(); ++i) {
    const ModuleEntry& entry = index.sites.modules[i];
    const bool is_root = entry.name.empty();
    if (is_root) root_entries = std::make_shared<StepCounter>();
    chunks_.push_back(entry.chunk);
    taps_.push_back(nullptr);
    // A module that two chunks share belongs to the first.
    if (index.points[i] == nullptr || ModuleTap::IsAttached(*index.points[i])) continue;
    const std::string key = std::to_string(entry.chunk) + ":" + entry.name;
    taps_.back() =
        std::make_unique<ModuleTap>(context_, root_entries, index.points[i], key, is_root, static_cast<uint32_t>(i));
  }
}

// Detaches all moved taps first: modules may have changed places.
void ModuleTaps::Rebind(const std::vector<TapPoint*>& points) {
  for (size_t i = 0; i < taps_.size(); ++i)
    if (taps_[i] != nullptr && taps_[i]->point() != points[i]) taps_[i]->Detach();
  for (size_t i = 0; i < taps_.size(); ++i)
    if (taps_[i] != nullptr && taps_[i]->point() == nullptr) taps_[i]->AttachTo(points[i]);
  Arm();
}

bool ModuleTaps::IsOn(const TapPoint& point) const {
  return std::any_of(taps_.begin(), taps_.end(), [&](const auto& tap) { return tap != nullptr && tap->IsOn(point); });
}

void ModuleTaps::Swap(const RecordLayout* layout) noexcept {
  collected_steps_ = 0;
  for (auto& tap : taps_) {
    if (tap == nullptr) continue;
    tap->sites() = ModuleSites();
    tap->ForgetCalls();
  }
  size_t rows = 0;
  for (size_t i = 0; layout != nullptr && i < layout->sites.size(); ++i) {
    const PlannedSite& site = layout->sites[i];
    const bool is_actv = site.kind == SiteKind::kActv;
    if (!is_actv && site.kind != SiteKind::kActvGrad) continue;
    if (site.owner >= taps_.size() || taps_[site.owner] == nullptr) continue;
    taps_[site.owner]->sites().Add(site, static_cast<SiteId>(i));
    rows += is_actv;
  }
  context_->SetPlacesWithoutGradient(rows * static_cast<size_t>(context_->grad_acc_steps));
}

// A root counts micro-batches for its chunk, so it is armed with any of its modules. It comes first in its chunk.
void ModuleTaps::Arm() noexcept {
  const bool all = context_->structure != nullptr;
  ModuleTap* root = nullptr;
  for (size_t i = 0; i < taps_.size(); ++i) {
    if (i == 0 || chunks_[i] != chunks_[i - 1]) root = nullptr;
    ModuleTap* tap = taps_[i].get();
    if (tap == nullptr) continue;
    if (tap->is_root()) root = tap;
    const bool wanted = all || tap->sites().any();
    tap->Arm(wanted);
    if (wanted && root != nullptr) root->Arm(true);
  }
}

void ModuleTaps::LookForUncalled() {
  if (said_uncalled_ || collected_steps_ == 2 || ++collected_steps_ < 2) return;
  size_t selected = 0, uncalled = 0;
  const ModuleTap* first = nullptr;
  for (const auto& tap : taps_) {
    if (tap == nullptr || tap->point() == nullptr || !tap->sites().any()) continue;
    ++selected;
    if (tap->was_called()) continue;
    ++uncalled;
    if (first == nullptr) first = tap.get();
  }
  if (uncalled == 0) return;
  said_uncalled_ = true;
  context_->reporter.Warn(
      std::to_string(uncalled) + " of " + std::to_string(selected) + " selected modules (\"" + first->key() +
      "\" is one) were not seen to run in two steps and have no rows of activations: a module is seen "
      "where forward is called in training mode, through the holder or the Watched type, and "
      "not where another method (forward_with_packed_input) computes the same");
}

}  // namespace stepwatch::torch_front
