// A run whose training step is a CUDA graph: no code of ours runs on the host when it is replayed.
#pragma once

#include <utility>
#include <vector>

#include "tests/drain/run_fixture.h"

namespace stepwatch::step {

using namespace drain;

// A run with one device, a model of eight parameters on it, and a stream on which graphs are captured.
class GraphRun : public Run {
 public:
  explicit GraphRun(RunSetup setup = {}) : Run(WithDevice(setup)) {}

  TensorView View() {
    TensorView view = device::OnDevice(DenseView(data.data(), DType::kFloat32, &size_, 1));
    view.stream = &stream_;
    return view;
  }
  void Capture(std::vector<Observation> sites) {
    device().CaptureOn(&stream_);
    for (const Observation& at : sites) {
      Record record;
      if (plane.recorder.Measure(at, View(), &record)) plane.recorder.Enqueue(record);
    }
    device().CaptureOn(nullptr);
  }
  // One step of the training: the host launches the graph, and ends the step.
  void ReplayStep(float value, uint64_t rows) {
    data[0] = value;
    if (rows > 0) Produced(plane.plans.plan_id(), rows);
    device().Replay();
    plane.plans.EndStep();
  }
  device::FakeDevice& device() { return devices[0]; }

  std::vector<float> data = {0, 0, 0};

 private:
  static RunSetup WithDevice(RunSetup setup) {
    setup.devices = 1;
    return setup;
  }
  int64_t size_ = 3;
  char stream_ = 0;
};

// Begun, with a graph that measures these.
struct CapturedRun : GraphRun {
  explicit CapturedRun(std::vector<Observation> sites = {{0}}) {
    Start();
    Begin();
    Capture(std::move(sites));
  }
};

inline std::vector<std::pair<int64_t, double>> StepsAndNorms(const Run& run) {
  std::vector<std::pair<int64_t, double>> rows;
  for (const Record& record : run.sink->records()) rows.emplace_back(record.step, record.values[0].f64);
  return rows;
}

using Rows = std::vector<std::pair<int64_t, double>>;

}  // namespace stepwatch::step
