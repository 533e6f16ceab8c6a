// The attachments to watched modules: the sites that the plan in force watches, and the state of their calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "front_ends/torch/context.h"
#include "front_ends/torch/model_index.h"
#include "stepwatch/part_scope.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/site.h"

namespace stepwatch {

class TapPoint;

namespace detail {
class ForwardCall;
}

// The tap of one module.
class ModuleTap {
 public:
  // `root_entries` counts the entries of the root for the whole chunk. `key` names the module in module_struct.json,
  // `index` in SiteIndex::modules. Detaches itself when either side is destroyed.
  ModuleTap(std::shared_ptr<torch_front::Context> context, std::shared_ptr<torch_front::StepCounter> root_entries,
            TapPoint* point, std::string key, bool is_root, uint32_t index);
  ~ModuleTap();
  ModuleTap(const ModuleTap&) = delete;
  ModuleTap& operator=(const ModuleTap&) = delete;

  static bool IsAttached(const TapPoint& point);
  bool IsOn(const TapPoint& point) const { return point_ == &point; }
  TapPoint* point() const noexcept { return point_; }  // null: the module is gone
  void Detach() noexcept;
  // Moves the tap to the module that has replaced this one and has the same sites; null, or a module that is already
  // watched: detaches the tap. The tap must be armed again.
  void AttachTo(TapPoint* point) noexcept;
  void PointDied() noexcept { point_ = nullptr; }

  // Between steps. While armed, each forward is observed, for rows (`watches`) or as a part of the step's time;
  // otherwise it costs one load.
  torch_front::ModuleSites& sites() { return sites_; }
  void Arm(bool watches, bool times) noexcept;
  bool is_root() const { return is_root_; }
  const std::string& key() const { return key_; }
  // True if it was called in a collected step since ForgetCalls.
  bool was_called() const noexcept { return was_called_.load(std::memory_order_relaxed); }
  void ForgetCalls() noexcept { was_called_.store(false, std::memory_order_relaxed); }

 private:
  friend class detail::ForwardCall;

  torch_front::CallPosition NextCall() noexcept;
  // Counts the forward of a root until the scope ends, if it is measured.
  void BeginForward(std::optional<PartScope>* time) const noexcept;

  const std::shared_ptr<torch_front::Context> context_;
  const std::shared_ptr<torch_front::StepCounter> root_entries_;
  const std::string key_;
  const bool is_root_;
  const uint32_t index_;
  TapPoint* point_;
  bool watches_ = false;
  torch_front::ModuleSites sites_;
  torch_front::CallCounter calls_;
  std::atomic<bool> was_called_{false};
};

namespace torch_front {

// The taps on the watched modules of the attached models. Between steps, on the step thread.
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
  bool has_plan_ = false;
  int collected_steps_ = 0;  // of this plan, at most two
  bool warned_uncalled_ = false;
};

}  // namespace torch_front
}  // namespace stepwatch
