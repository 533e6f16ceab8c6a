// Passes of the autograd engine, counted as backward by the monitors that measure a step on the thread of the pass.
//
// LibTorch asks for its engine through a function that a program may replace. While a step is measured, that function
// returns an engine which passes each call on to LibTorch's own, so that a pass is seen from its begin to its end, also
// if it throws. In a process that runs Python torch has replaced the function already, and no pass is seen.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>

namespace stepwatch {
class Monitor;
}

namespace stepwatch::torch_front {

// One for the process, as the engine is. Any thread; neither locks nor allocates.
class BackwardPasses {
 public:
  static constexpr size_t kMonitorsMax = 16;  // at a time; further ones see no passes

  // The first call allocates.
  static BackwardPasses& OfProcess();

  // Passes on the calling thread are parts of the monitor's step until Remove. Safe to call twice, on any thread.
  void Add(Monitor* monitor) noexcept;
  // The monitor may be destroyed afterwards, unless its own thread is in a pass.
  void Remove(Monitor* monitor) noexcept;

 private:
  class PassingEngine;
  class Pass;

  // A thread reads the monitor of a place only if the place is its own: other monitors may be destroyed meanwhile.
  struct Place {
    std::atomic<std::thread::id> thread;
    std::atomic<Monitor*> monitor{nullptr};

    Monitor* Here() const noexcept;
  };

  BackwardPasses();
  ~BackwardPasses() = delete;  // threads may be in a pass at the end of the process

  Place* Find(Monitor* monitor) noexcept;

  std::array<Place, kMonitorsMax> places_;
  std::atomic<size_t> used_{0};
  const std::unique_ptr<PassingEngine> engine_;
};

}  // namespace stepwatch::torch_front
