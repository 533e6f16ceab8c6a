// A front end whose tensors are single numbers.
#pragma once

#include <memory>

#include "front_ends/shared/reporter.h"
#include "tests/front_ends/shared/text_recorder.h"

namespace stepwatch::tests {

using Number = std::shared_ptr<const float>;

struct NumberContext {
  Recorder* recorder = nullptr;
  uint64_t generation = 1;
  uint32_t step = 0;
  int grad_acc_steps = 1;
  front_end::Reporter reporter;

  bool Measure(Recorder& to, SiteKind, const Observation& at, const Number& number, Record* record) {
    return to.Measure(at, DenseView(number.get(), DType::kFloat32, nullptr, 0), record);
  }
  void Observe(Recorder& to, SiteKind kind, const Observation& at, const Number& number) {
    Record record;
    if (Measure(to, kind, at, number, &record)) to.Enqueue(record);
  }
};

struct Side {
  using Context = NumberContext;
  static Number Make(float number) { return std::make_shared<float>(number); }
};

}  // namespace stepwatch::tests
