#include "front_ends/torch/backward_passes.h"

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/input_buffer.h>

#include <utility>

#include "stepwatch/monitor.h"

namespace stepwatch::torch_front {

namespace ag = torch::autograd;

// Counts a block as backward, for each monitor that measures on this thread.
class BackwardPasses::Pass {
 public:
  explicit Pass(BackwardPasses& passes) noexcept : places_(passes.places_) {
    for (size_t i = 0; i < kMonitorsMax; ++i) {
      entered_[i].monitor = places_[i].Here();
      if (Monitor* const monitor = entered_[i].monitor) entered_[i].before = monitor->EnterPart(StepPart::kBackward);
    }
  }
  // A step that has ended in the pass may have been the last measured one of its monitor.
  ~Pass() {
    for (size_t i = kMonitorsMax; i-- > 0;) {
      Monitor* const monitor = entered_[i].monitor;
      if (monitor != nullptr && monitor == places_[i].Here()) (void)monitor->EnterPart(entered_[i].before);
    }
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

 private:
  struct Entered {
    Monitor* monitor = nullptr;
    StepPart before = StepPart::kRest;
  };
  const std::array<Place, kMonitorsMax>& places_;
  std::array<Entered, kMonitorsMax> entered_;
};

// LibTorch's engine starts threads for devices on the first pass, once in the process and for the engine that asks
// first: every pass is therefore run by LibTorch's own.
class BackwardPasses::PassingEngine final : public ag::Engine {
 public:
  explicit PassingEngine(BackwardPasses& passes) : passes_(passes) {}

  ag::variable_list execute(const ag::edge_list& roots, const ag::variable_list& inputs, bool keep_graph,
                            bool create_graph, bool accumulate_grad, const ag::edge_list& outputs) override {
    const Pass pass(passes_);
    return get_base_engine().execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(const std::shared_ptr<ag::GraphTask>& graph_task,
                                                                 decltype(ag::Edge::function) graph_root,
                                                                 ag::InputBuffer&& input_buffer) override {
    return get_base_engine().execute_with_graph_task(graph_task, std::move(graph_root), std::move(input_buffer));
  }

 private:
  BackwardPasses& passes_;
};

Monitor* BackwardPasses::Place::Here() const noexcept {
  const bool is_own = thread.load(std::memory_order_acquire) == std::this_thread::get_id();
  return is_own ? monitor.load(std::memory_order_acquire) : nullptr;
}

BackwardPasses::BackwardPasses() : engine_(std::make_unique<PassingEngine>(*this)) {}

BackwardPasses& BackwardPasses::OfProcess() {
  static BackwardPasses& passes = *new BackwardPasses();
  return passes;
}

BackwardPasses::Place* BackwardPasses::Find(Monitor* monitor) noexcept {
  for (Place& place : places_)
    if (place.monitor.load(std::memory_order_acquire) == monitor) return &place;
  return nullptr;
}

void BackwardPasses::Add(Monitor* monitor) noexcept {
  Place* place = Find(monitor);
  for (size_t i = 0; place == nullptr && i < kMonitorsMax; ++i) {
    Monitor* none = nullptr;
    if (!places_[i].monitor.compare_exchange_strong(none, monitor, std::memory_order_acq_rel)) continue;
    place = &places_[i];
    used_.fetch_add(1, std::memory_order_acq_rel);
  }
  if (place == nullptr) return;
  place->thread.store(std::this_thread::get_id(), std::memory_order_release);
  // Each time: another thread that has removed the last monitor before may have restored LibTorch's engine just now.
  if (&ag::Engine::get_default_engine() == &ag::Engine::get_base_engine())
    ag::set_default_engine_stub([]() -> ag::Engine& { return *OfProcess().engine_; });
}

void BackwardPasses::Remove(Monitor* monitor) noexcept {
  Place* const place = Find(monitor);
  if (place == nullptr) return;
  place->thread.store(std::thread::id(), std::memory_order_release);
  place->monitor.store(nullptr, std::memory_order_release);
  const bool was_last = used_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  if (was_last && &ag::Engine::get_default_engine() == engine_.get())
    ag::set_default_engine_stub(&ag::Engine::get_base_engine);
}

}  // namespace stepwatch::torch_front
