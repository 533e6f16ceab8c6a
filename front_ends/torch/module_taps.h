// The taps on the watched modules of the attached models. Between steps, on the step thread.
#pragma once

#include <memory>
#include <vector>

#include "front_ends/torch/context.h"
#include "front_ends/torch/model_index.h"
#include "front_ends/torch/module_tap.h"
#include "stepwatch/record_layout.h"

namespace stepwatch::torch_front {

class ModuleTaps {
 public:
  explicit ModuleTaps(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  void Build(const ModelIndex& index);
  // Moves the taps to the modules that now have the places of the index they were built for; null where there is none.
  // The sites stay.
  void Rebind(const std::vector<TapPoint*>& points);
  void Clear() { taps_.clear(); }
  bool IsOn(const TapPoint& point) const;

  // Null: no site is wanted any more. Arm must follow.
  void Swap(const RecordLayout* layout) noexcept;
  void Arm() noexcept;
  // At the end of a collected step; after the second one reports once the modules that were not seen to run.
  void LookForUncalled();

 private:
  const std::shared_ptr<Context> context_;
  std::vector<std::unique_ptr<ModuleTap>> taps_;  // as SiteIndex::modules; null: not Watched
  std::vector<int> chunks_;                       // of each module
  int collected_steps_ = 0;                       // of this plan, at most two
  bool said_uncalled_ = false;
};

}  // namespace stepwatch::torch_front
