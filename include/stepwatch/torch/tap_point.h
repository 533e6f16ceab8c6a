// Attachment of the monitor to a module or an optimizer: one pointer, null unless a plan wants something there.
//
// Points and taps refer to each other, so either may be destroyed first. Attach, Close and the destruction of a watched
// object must happen on one thread at a time, and no forward and no step may run meanwhile.
#pragma once

#include <atomic>
#include <typeinfo>

namespace stepwatch {

class ModuleTap;     // internal to the monitor
class OptimizerTap;  // internal to the monitor

// Second base of a watched module. A copy starts unwatched.
class TapPoint {
 public:
  TapPoint() = default;
  TapPoint(const TapPoint&) {}
  TapPoint& operator=(const TapPoint&) { return *this; }
  virtual ~TapPoint();

  // The module's own class, without the watching layer.
  virtual const std::type_info& watched_type() const noexcept = 0;

 protected:
  // Null while no plan watches this module. This load is the whole cost of a module that is not watched.
  ModuleTap* tap() const noexcept { return armed_.load(std::memory_order_acquire); }

 private:
  friend class ModuleTap;

  std::atomic<ModuleTap*> armed_{nullptr};
  ModuleTap* attached_ = nullptr;
};

// Second base of a watched optimizer. A moved optimizer keeps its tap.
class OptimizerPoint {
 public:
  OptimizerPoint() = default;
  OptimizerPoint(const OptimizerPoint&) = delete;
  OptimizerPoint& operator=(const OptimizerPoint&) = delete;
  OptimizerPoint(OptimizerPoint&& other) noexcept;
  OptimizerPoint& operator=(OptimizerPoint&& other) noexcept;
  virtual ~OptimizerPoint();

  // The optimizer's own class, without the watching layer.
  virtual const std::type_info& watched_type() const noexcept = 0;

 protected:
  OptimizerTap* tap() const noexcept { return tap_.load(std::memory_order_acquire); }

 private:
  friend class OptimizerTap;
  void TakeTapOf(OptimizerPoint& other) noexcept;

  std::atomic<OptimizerTap*> tap_{nullptr};
};

}  // namespace stepwatch
