// The tensors of LibTorch, and the state that taps and hooks of one TorchMonitor share.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "front_ends/shared/hook_context.h"
#include "front_ends/shared/wanted_sites.h"
#include "front_ends/torch/inner_parts.h"

namespace stepwatch::torch_front {

// State shared with other front ends.
using front_end::CallCounter;
using front_end::CallPosition;
using front_end::CatchAndReport;
using front_end::kNoSite;
using front_end::ModuleSites;
using front_end::Reporter;
using front_end::StepCounter;
using front_end::StructureRecorder;

struct Context;

struct TorchTensors {
  using Context = torch_front::Context;
  using Handle = at::Tensor;
  using Borrowed = const at::Tensor&;
  using Mutex = std::mutex;

  // An input or output that no hook watches can have no gradient: its row does not wait for the end of the step.
  static constexpr bool kReportsUnwatchedAtOnce = true;

  static bool IsNone(const at::Tensor& gradient) { return !gradient.defined(); }
  static const at::Tensor& Borrow(const at::Tensor& sum) { return sum; }
  static at::Tensor Detach(const at::Tensor& gradient) { return gradient.detach(); }
  static at::Tensor Add(const at::Tensor& sum, const at::Tensor& part);
  static at::Tensor Subtract(const at::Tensor& gradient, const at::Tensor& parts, bool are_several);
  static std::string Describe(const Context& context, const at::Tensor& gradient);
  static std::string StillClockText(uint32_t passes);
};

using CallGradients = front_end::CallGradients<TorchTensors>;

struct Context : front_end::HookContext<TorchTensors> {
  InnerParts inner_parts;

  // Warns once that a module returns a type that is not searched for tensors.
  void WarnUnreadable(const std::string& module) noexcept;

  // Forward passes without gradients, such as rollouts, are unlimited in number between two steps. Their rows are
  // limited to those of one step of training; further calls are left out, so that later gradients have room.
  void SetPlacesWithoutGradient(size_t planned_rows) noexcept;
  // False: the call is left out, and counted.
  bool AdmitWithoutGradient() noexcept;
  void NoteRowsWithoutGradient(size_t rows) noexcept {
    (void)rows_without_gradient_.Add(step.load(std::memory_order_relaxed), static_cast<uint32_t>(rows));
  }
  uint64_t calls_left_out() const noexcept { return calls_left_out_.load(std::memory_order_relaxed); }

  // False if there is nothing to enqueue.
  bool Measure(Recorder& to, SiteKind kind, const Observation& at, const at::Tensor& tensor, Record* record);

 private:
  StepCounter rows_without_gradient_;
  uint32_t places_without_gradient_ = 0;  // changes between steps only
  std::atomic<uint64_t> calls_left_out_{0};
  std::atomic<bool> warned_left_out_{false};
  std::atomic<bool> warned_unreadable_{false};
};

}  // namespace stepwatch::torch_front
