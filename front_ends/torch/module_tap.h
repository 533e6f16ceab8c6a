// The attachment to one watched module: the sites that the plan in force watches, and the state of its calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "front_ends/torch/context.h"
#include "stepwatch/site.h"

namespace stepwatch {

class TapPoint;

namespace detail {
class ForwardCall;
}

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

  // Between steps. While armed, each forward is observed; otherwise it costs one load.
  torch_front::ModuleSites& sites() { return sites_; }
  void Arm(bool armed) noexcept;
  bool is_root() const { return is_root_; }
  const std::string& key() const { return key_; }
  // True if it was called in a collected step since ForgetCalls.
  bool was_called() const noexcept { return was_called_.load(std::memory_order_relaxed); }
  void ForgetCalls() noexcept { was_called_.store(false, std::memory_order_relaxed); }

 private:
  friend class detail::ForwardCall;

  torch_front::CallPosition NextCall() noexcept;

  const std::shared_ptr<torch_front::Context> context_;
  const std::shared_ptr<torch_front::StepCounter> root_entries_;
  const std::string key_;
  const bool is_root_;
  const uint32_t index_;
  TapPoint* point_;
  torch_front::ModuleSites sites_;
  torch_front::CallCounter calls_;
  std::atomic<bool> was_called_{false};
};

}  // namespace stepwatch
