#include "front_ends/torch/context.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "front_ends/torch/call_gradients.h"
#include "front_ends/torch/tensor_view.h"

namespace stepwatch::torch_front {
namespace {

// Above this number of backward passes in a step its end was probably missed: three times the announced number, and
// more where few are announced.
constexpr uint32_t kStepsOfPasses = 3;
constexpr uint32_t kPassesMin = 32;
// Half the size of the smallest ring.
constexpr size_t kPlacesMin = 512;
constexpr size_t kPlacesMax = size_t{1} << 30;

}  // namespace

void Context::NotePasses(uint32_t passes) noexcept {
  if (passes < kStepsOfPasses * std::max(static_cast<uint32_t>(grad_acc_steps), kPassesMin)) return;
  if (said_no_step_.load(std::memory_order_relaxed) || said_no_step_.exchange(true)) return;
  try {
    reporter.Warn(std::to_string(passes) +
                  " backward passes have reached a watched parameter and no step has ended, so changes of the config "
                  "wait and all rows belong to one step: attach the optimizer whose step is called, "
                  "monitor.Attach(*model, optimizer), or call monitor.EndStep() after each update; if a step has that "
                  "many passes, set Options::grad_acc_steps");
  } catch (const std::bad_alloc&) {  // no memory for the message
  }
}

void Context::SayUnreadable(const std::string& module) noexcept {
  if (said_unreadable_.load(std::memory_order_relaxed) || said_unreadable_.exchange(true)) return;
  try {
    reporter.Warn("the output of module \"" + module +
                  "\", and of similar modules, has no rows: it is neither a tensor nor a tuple, pair, vector, array or "
                  "optional of tensors");
  } catch (const std::bad_alloc&) {  // no memory for the message
  }
}

void Context::SetPlacesWithoutGradient(size_t planned_rows) noexcept {
  places_without_gradient_ = static_cast<uint32_t>(std::clamp(planned_rows, kPlacesMin, kPlacesMax));
}

bool Context::AdmitWithoutGradient() noexcept {
  if (rows_without_gradient_.Count(step.load(std::memory_order_relaxed)) < places_without_gradient_) return true;
  if (calls_left_out_.fetch_add(1, std::memory_order_relaxed) != 0) return false;
  try {
    reporter.Warn("forward passes without gradient have used the " + std::to_string(places_without_gradient_) +
                  " places that a step has for their rows: further ones of the step have no rows, which leaves places "
                  "for training; model->eval() excludes all of them");
  } catch (const std::bad_alloc&) {  // no memory for the message
  }
  return false;
}

bool Context::Measure(Recorder& to, SiteKind kind, const Observation& at, const at::Tensor& tensor, Record* record) {
  const SeenTensor seen = See(tensor);
  if (seen.problem != nullptr) reporter.Unmeasurable(kind, seen.problem);
  return to.Measure(at, seen.view, record);
}

void Context::Observe(Recorder& to, SiteKind kind, const Observation& at, const at::Tensor& tensor) {
  Record record;
  if (Measure(to, kind, at, tensor, &record)) to.Enqueue(record);
}

void Context::AddAnswered(std::shared_ptr<CallGradients> call) {
  call->TellUnwatched();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (answered_.size() < front_end::kAnsweredMax) answered_.push_back(std::move(call));
}

void Context::FinishCalls() noexcept {
  std::vector<std::shared_ptr<CallGradients>> calls;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls.swap(answered_);
  }
  for (const std::shared_ptr<CallGradients>& call : calls) call->Finish();
}

}  // namespace stepwatch::torch_front
