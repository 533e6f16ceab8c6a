// A recorder that writes down what it is handed, one word a record.
#pragma once

#include <atomic>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "stepwatch/recorder.h"

namespace stepwatch::tests {

// "2:1_3@1=7": site, micro-step, element of a tuple, call, and the first number of the tensor, nan if there is none. A
// record that was measured and discarded has "~" in front.
class TextRecorder final : public Recorder {
 public:
  TextRecorder() : Recorder(&collecting_, &due_) {}

  // Returns what has come since the last call.
  std::string Take() {
    std::string text = std::exchange(text_, std::string());
    if (!text.empty()) text.pop_back();
    return text;
  }
  void set_collecting(bool collecting) { collecting_ = collecting; }

  void ObserveBatch(const Observation* at, const TensorView* tensors, size_t count) noexcept override {
    for (size_t i = 0; i < count; ++i) Observe(at[i], tensors[i]);
  }
  void ObserveMissing(const Observation& at) noexcept override { Write("", At(at), "nan"); }
  bool Measure(const Observation& at, const TensorView& tensor, Record* record) noexcept override {
    *record = At(at);
    record->values[0].f64 = tensor.dtype == DType::kFloat32 ? *static_cast<const float*>(tensor.data) : -1;
    return true;
  }
  void Enqueue(const Record& record) noexcept override { Write("", record, Number(record)); }
  void Discard(const Record& record) noexcept override { Write("~", record, Number(record)); }

  void ObserveValues(const Observation&, const double*, size_t) noexcept override {}
  void ObserveHeatmaps(std::vector<HeatmapColumn>) noexcept override {}
  void ObserveAgreement(const Observation&, const TensorView&, const TensorView&) noexcept override {}
  void SetLateResults(std::shared_ptr<LateResults>) noexcept override {}
  bool Measures(Device) noexcept override { return true; }
  ZerosRule zeros_rule() const noexcept override { return {}; }
  bool MeasureLate(const Observation&, const TensorView&, const LateTicket&, Record*) noexcept override {
    return false;
  }
  void AddTime(std::chrono::nanoseconds) noexcept override {}

 private:
  static Record At(const Observation& at) {
    Record record;
    record.site = at.site;
    record.micro_step = at.micro_step;
    record.element = at.element;
    record.call = at.call;
    return record;
  }
  static std::string Number(const Record& record) {
    std::ostringstream text;
    text << record.values[0].f64;
    return text.str();
  }
  void Write(const char* mark, const Record& record, const std::string& number) {
    text_ += mark + std::to_string(record.site) + ":" + std::to_string(record.micro_step);
    if (record.element != kNoElement) text_ += "_" + std::to_string(record.element);
    if (record.call != 0) text_ += "@" + std::to_string(record.call);
    text_ += "=" + number + " ";
  }

  std::atomic<bool> collecting_{true};
  std::atomic<GroupSet> due_{~GroupSet{0}};
  std::string text_;
};

}  // namespace stepwatch::tests
