// A front end whose tensors are single numbers.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "front_ends/shared/call_gradients.h"
#include "front_ends/shared/reporter.h"
#include "front_ends/shared/structure.h"
#include "tests/catch.h"
#include "tests/front_ends/shared/text_recorder.h"

namespace stepwatch::tests {

using Number = std::shared_ptr<const float>;  // null: no tensor

inline TensorView ViewOf(const Number& number) {
  return DenseView(number.get(), DType::kFloat32, nullptr, 0);
}

struct NumberTensors;

struct NumberContext {
  Recorder* recorder = nullptr;
  uint64_t generation = 1;
  uint32_t step = 0;
  int grad_acc_steps = 1;
  front_end::Reporter reporter;
  std::vector<std::shared_ptr<front_end::CallGradients<NumberTensors>>> answered;

  Recorder* Collecting() const { return recorder != nullptr && recorder->collecting() ? recorder : nullptr; }
  void AddAnswered(std::shared_ptr<front_end::CallGradients<NumberTensors>> call) {
    answered.push_back(std::move(call));
  }
  void FinishCalls();
  bool Measure(Recorder& to, SiteKind, const Observation& at, const Number& number, Record* record) {
    return to.Measure(at, ViewOf(number), record);
  }
  void Observe(Recorder& to, SiteKind kind, const Observation& at, const Number& number) {
    Record record;
    if (Measure(to, kind, at, number, &record)) to.Enqueue(record);
  }
};

template <class F>
void Guarded(NumberContext& context, const char* where, const F& f) noexcept {
  front_end::Guarded(context.reporter, where, f);
}

struct NumberTensors {
  using Context = NumberContext;
  using Handle = Number;
  using Given = const Number&;
  using Mutex = std::mutex;

  static bool IsNone(const Number& number) { return number == nullptr; }
  static Number Detach(const Number& number) { return number; }
  static Number Add(const Number& sum, const Number& part) { return std::make_shared<float>(*sum + *part); }
  static const Number& Give(const Number& sum) { return sum; }
  static std::string Describe(const NumberContext&, const Number& number) {
    return front_end::DescribeView(ViewOf(number));
  }
};

inline void NumberContext::FinishCalls() {
  for (const auto& call : std::exchange(answered, {})) call->Finish();
}

struct Side {
  using Context = NumberContext;
  using Tensors = NumberTensors;
  static Number Make(float number) { return std::make_shared<float>(number); }
};

}  // namespace stepwatch::tests
