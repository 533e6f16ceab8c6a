// Where the monitor takes hold of a module or an optimizer: one pointer, empty unless something is wanted there.
//
// Points and taps know each other, so either may die first. Attach, Close, and the death of a watched object belong to
// one thread at a time; no forward and no step may run meanwhile.
#pragma once

#include <atomic>
#include <typeinfo>

namespace stepwatch {

class ModuleTap;     // of the monitor
class OptimizerTap;  // of the monitor

// Second base of a watched module. A copy starts unwatched.
class TapPoint {
 public:
  TapPoint() = default;
  TapPoint(const TapPoint&) {}
  TapPoint& operator=(const TapPoint&) { return *this; }
  virtual ~TapPoint();

  // The module's own class, without the layer that watches it.
  virtual const std::type_info& watched_type() const noexcept = 0;

 protected:
  // Null while no plan wants anything of this module: all that a module costs that is not watched.
  ModuleTap* tap() const noexcept { return armed_.load(std::memory_order_acquire); }

 private:
  friend class ModuleTap;

  std::atomic<ModuleTap*> armed_{nullptr};
  ModuleTap* attached_ = nullptr;
};

// Second base of a watched optimizer. The tap follows an optimizer that is moved.
class OptimizerPoint {
 public:
  OptimizerPoint() = default;
  OptimizerPoint(const OptimizerPoint&) = delete;
  OptimizerPoint& operator=(const OptimizerPoint&) = delete;
  OptimizerPoint(OptimizerPoint&& other) noexcept;
  OptimizerPoint& operator=(OptimizerPoint&& other) noexcept;
  virtual ~OptimizerPoint();

  // The optimizer's own class, without the layer that watches it.
  virtual const std::type_info& watched_type() const noexcept = 0;

 protected:
  OptimizerTap* tap() const noexcept { return tap_.load(std::memory_order_acquire); }

 private:
  friend class OptimizerTap;
  void TakeTapOf(OptimizerPoint& other) noexcept;

  std::atomic<OptimizerTap*> tap_{nullptr};
};

}  // namespace stepwatch
