#include "front_ends/torch/context.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/sub.h>

#include <algorithm>
#include <string>

#include "front_ends/torch/tensor_view.h"

namespace stepwatch::torch_front {
namespace {

// Half the size of the smallest ring.
constexpr size_t kPlacesMin = 512;
constexpr size_t kPlacesMax = size_t{1} << 30;

}  // namespace

at::Tensor TorchTensors::Add(const at::Tensor& sum, const at::Tensor& part) {
  const at::NoGradGuard no_grad;
  return at::add(sum, part);
}

// Autograd passes a single gradient on unchanged, in the same memory, and several as their sum; comparing sums would
// wait for a device.
at::Tensor TorchTensors::Subtract(const at::Tensor& gradient, const at::Tensor& parts, bool are_several) {
  const at::NoGradGuard no_grad;
  const bool is_same = gradient.has_storage() && parts.has_storage() && gradient.is_alias_of(parts) &&
                       gradient.storage_offset() == parts.storage_offset();
  const bool are_all = is_same || (are_several && gradient.is_cpu() && at::equal(gradient, parts));
  return are_all ? at::Tensor() : at::sub(gradient, parts);
}

std::string TorchTensors::Describe(const Context&, const at::Tensor& gradient) {
  return DescribeTensor(gradient);
}

std::string TorchTensors::StillClockText(uint32_t passes) {
  return std::to_string(passes) +
         " backward passes have reached a watched parameter and no step has ended, so changes of the config wait and "
         "all rows belong to one step: attach the optimizer whose step is called, monitor.Attach(*model, optimizer), "
         "or "
         "call monitor.EndStep() after each update; if a step has that many passes, set Options::grad_acc_steps";
}

void Context::WarnUnreadable(const std::string& module) noexcept {
  reporter.WarnOnce(&warned_unreadable_, [&] {
    return "the output of module \"" + module +
           "\", and of similar modules, has no rows: it is neither a tensor nor a tuple, pair, vector, array or "
           "optional "
           "of tensors";
  });
}

void Context::SetPlacesWithoutGradient(size_t planned_rows) noexcept {
  places_without_gradient_ = static_cast<uint32_t>(std::clamp(planned_rows, kPlacesMin, kPlacesMax));
}

bool Context::AdmitWithoutGradient() noexcept {
  if (rows_without_gradient_.Count(step.load(std::memory_order_relaxed)) < places_without_gradient_) return true;
  calls_left_out_.fetch_add(1, std::memory_order_relaxed);
  reporter.WarnOnce(&warned_left_out_, [this] {
    return "forward passes without gradient have used the " + std::to_string(places_without_gradient_) +
           " places that a step has for their rows: further ones of the step have no rows, which leaves places for "
           "training; model->eval() excludes all of them";
  });
  return false;
}

bool Context::Measure(Recorder& to, SiteKind kind, const Observation& at, const at::Tensor& tensor, Record* record) {
  const SeenTensor seen = See(tensor);
  if (seen.problem != nullptr) reporter.Unmeasurable(kind, seen.problem);
  return to.Measure(at, seen.view, record);
}

}  // namespace stepwatch::torch_front
