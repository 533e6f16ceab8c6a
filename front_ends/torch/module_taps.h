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
  // As the modules of the index that they were built for: other modules stand there now, null where none does. The
  // sites stay.
  void Rebind(const std::vector<TapPoint*>& points);
  void Clear() { taps_.clear(); }
  bool IsOn(const TapPoint& point) const;

  // Null: nothing is wanted any more. Arm follows.
  void Swap(const RecordLayout* layout) noexcept;
  void Arm() noexcept;
  // At the end of a collected step: after the second one says once which modules have not been seen to run.
  void LookForUncalled();

 private:
  const std::shared_ptr<Context> context_;
  std::vector<std::unique_ptr<ModuleTap>> taps_;  // as SiteIndex::modules; null: not Watched
  std::vector<int> chunks_;                       // of each module
  int collected_steps_ = 0;                       // of this plan, at most two
  bool said_uncalled_ = false;
};

}  // namespace stepwatch::torch_front
