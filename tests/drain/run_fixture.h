// A data plane and a drain without the control plane: plans by hand, records by hand, sinks that follow a script.
// Every run ends with the account of every plan, which must be exact.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/drain/drain.h"
#include "src/drain/status_board.h"
#include "src/stats/engine.h"
#include "src/step/data_plane.h"
#include "src/step/pending_plan.h"
#include "tests/catch.h"
#include "tests/device/fake_device.h"
#include "tests/eventually.h"

namespace stepwatch::drain {

using testing::Eventually;

// A sink that keeps the records it took, and follows the script of the test in Write.
class ScriptedSink final : public Sink {
 public:
  // Gets the records of the frame that were not taken yet; returns how many of them to take, and with what status.
  using Script = std::function<WriteResult(const RecordLayout&, const StepFrame& left)>;

  void SetScript(Script script) {
    const std::lock_guard<std::mutex> lock(mutex_);
    script_ = std::move(script);
  }
  // Every write waits for LetGo before it does anything; Run calls it at its end.
  void Hang() { SetHanging(true); }
  void LetGo() { SetHanging(false); }

  WriteResult Write(const RecordLayout& layout, const StepFrame& frame) override {
    Script script;
    size_t taken = 0;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      ++writes_;
      changed_.wait(lock, [this] { return !hangs_; });
      script = script_;
      if (frame_plan_ != layout.plan_id || frame_step_ != frame.step) taken_of_frame_ = 0;
      frame_plan_ = layout.plan_id;
      frame_step_ = frame.step;
      taken = taken_of_frame_;
    }
    const StepFrame left{frame.step, frame.records + taken, frame.count - taken};
    WriteResult result{Status(), left.count};
    if (script) result = script(layout, left);
    const std::lock_guard<std::mutex> lock(mutex_);
    const size_t now_taken = std::min(result.written, left.count);  // a script may claim more
    records_.insert(records_.end(), left.records, left.records + now_taken);
    taken_of_frame_ += now_taken;
    return result;
  }
  void Discard(const RecordLayout&, const StepFrame&) override { ++discarded_; }
  void EndPlan(const RecordLayout& layout) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_.push_back(layout.plan_id);
  }
  std::vector<std::string> BeginSegment(int64_t) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    segments_.push_back(records_.size());
    return {};
  }
  Status Flush() override {
    ++flushes_;
    return Status();
  }

  std::vector<Record> records() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return records_;
  }
  std::map<PlanId, uint64_t> written_by_plan() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::map<PlanId, uint64_t> counts;
    for (const Record& record : records_) ++counts[record.plan_id];
    return counts;
  }
  std::vector<PlanId> ended() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ended_;
  }
  // How many records had come when each segment began.
  std::vector<size_t> segments() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return segments_;
  }
  int writes() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return writes_;
  }
  int discarded() const { return discarded_; }
  int flushes() const { return flushes_; }

 private:
  void SetHanging(bool hangs) {
    const std::lock_guard<std::mutex> lock(mutex_);
    hangs_ = hangs;
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool hangs_ = false;
  Script script_;
  std::vector<Record> records_;
  std::vector<PlanId> ended_;
  std::vector<size_t> segments_;
  PlanId frame_plan_ = 0;
  int64_t frame_step_ = INT64_MIN;
  size_t taken_of_frame_ = 0;
  int writes_ = 0;
  std::atomic<int> discarded_{0};
  std::atomic<int> flushes_{0};
};

inline WriteResult Refuse(const RecordLayout&, const StepFrame&) {
  return {Status(StatusCode::kExhausted, "no space left"), 0};
}

struct PlanSpec {
  PlanId id = 1;
  plan::StepRule rule{0, 1, 1000000};
  size_t sites = 1;
  SiteKind kind = SiteKind::kGradReduced;
};

inline std::shared_ptr<const plan::Plan> MakePlan(const PlanSpec& spec) {
  auto plan = std::make_shared<plan::Plan>();
  plan->layout.plan_id = spec.id;
  plan->layout.stats = {Stat::kNorm, Stat::kShape, Stat::kDtype};
  for (size_t i = 0; i < spec.sites; ++i)
    plan->layout.sites.push_back({spec.kind, Port::kNone, static_cast<uint32_t>(i), 0, "p"});
  plan->rule = spec.rule;
  return plan;
}

struct RunSetup {
  size_t backlog_bytes_max = size_t{64} << 20;
  int64_t first_step = 0;
  int devices = 0;
  size_t results_max = 16384;  // of each device
  ParallelFor parallel_for = nullptr;
  device::MakeDeviceEngine make_device_engine = {};  // instead of the fake devices' own
};

class Run {
 public:
  explicit Run(const RunSetup& setup = {})
      : devices(setup.devices, setup.results_max),
        sink(std::make_shared<ScriptedSink>()),
        board([] {}),
        engine({setup.make_device_engine ? setup.make_device_engine : devices.Maker(), setup.results_max,
                setup.parallel_for}),
        plane(setup.first_step, &engine, &wake_up_),
        drain(&board, &engine, &wake_up_, &plane.plans.begun_plans(), setup.backlog_bytes_max,
              [this] { return start_ + passed_.load(); }) {}
  explicit Run(size_t backlog_bytes_max, int64_t first_step = 0) : Run(RunSetup{backlog_bytes_max, first_step}) {}

  // How long results have been waited for: this clock stands still otherwise.
  void PassTime(std::chrono::milliseconds time) {
    passed_ = passed_.load() + time;
    wake_up_.Post();
  }

  void Start(std::vector<std::shared_ptr<Sink>> further_sinks = {}) {
    std::vector<std::shared_ptr<Sink>> sinks{sink};
    sinks.insert(sinks.end(), further_sinks.begin(), further_sinks.end());
    drain.SetSinks(std::move(sinks));
    drain.Start();
  }
  ~Run() {
    sink->LetGo();
    Finish();
  }

  // As the loop does it.
  std::unique_ptr<step::PendingPlan> MakePending(const PlanSpec& spec, size_t ring_records = 1024) {
    return MakePending(MakePlan(spec), ring_records);
  }
  std::unique_ptr<step::PendingPlan> MakePending(std::shared_ptr<const plan::Plan> plan, size_t ring_records = 1024) {
    auto pipeline = std::make_shared<step::Pipeline>(std::move(plan), ring_records);
    auto stream = drain.MakeStream(pipeline);
    return std::make_unique<step::PendingPlan>(step::NewWindow{}, std::move(pipeline), std::move(stream));
  }
  void Put(std::unique_ptr<step::PendingPlan> plan) {
    plane.plans.slot().Publish(std::move(plan));
    plane.plans.Reclaim();
  }
  void PublishPlan(const PlanSpec& spec, size_t ring_records = 1024) { Put(MakePending(spec, ring_records)); }
  // The plan begins with the step that comes next.
  void Begin(const PlanSpec& spec = {1, {0, 1, 1000000}, 8}, size_t ring_records = 1024) {
    PublishPlan(spec, ring_records);
    plane.plans.EndStep();
    REQUIRE(plane.plans.plan_id() == spec.id);
  }
  bool WaitWritten(size_t records) const {
    return Eventually([&] { return sink->records().size() >= records; });
  }
  void PublishStop() { Put(std::make_unique<step::PendingPlan>()); }

  // Produces one record, if the step is collected. Safe from several threads.
  void Observe(SiteId site = 0) { Observe(site, view_); }
  void ObserveOnDevice(SiteId site = 0, int device = 0) { Observe(site, device::OnDevice(view_, device)); }
  void Observe(SiteId site, const TensorView& view) {
    if (!plane.recorder.collecting()) return;
    Produced(plane.plans.plan_id(), 1);
    Record record;
    if (plane.recorder.Measure({site}, view, &record)) plane.recorder.Enqueue(record);
  }
  void Produced(PlanId plan, uint64_t count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    produced_[plan] += count;
  }
  // So many of them went into the rows of other ones.
  void Joined(PlanId plan, uint64_t count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    produced_[plan] -= count;
  }
  void TrainStep(int observations = 1) {
    for (int i = 0; i < observations; ++i) Observe();
    plane.plans.EndStep();
  }

  // Takes the entries that the drain has posted so far.
  void Collect() {
    for (BoardEntry& entry : board.Take()) {
      if (const auto* began = std::get_if<PlanBegan>(&entry)) begun.push_back(*began);
      if (const auto* finished = std::get_if<PlanFinished>(&entry)) ended.push_back(*finished);
      if (const auto* done = std::get_if<PlanDrained>(&entry)) drained[done->plan_id] = *done;
      if (const auto* failed = std::get_if<SinkFailed>(&entry)) failures.push_back(failed->status.message());
      if (std::holds_alternative<SinkRecovered>(entry)) ++recoveries;
      if (const auto* paused = std::get_if<PlanPaused>(&entry)) pauses.push_back(*paused);
      if (const auto* segment = std::get_if<SegmentBegun>(&entry)) segments.push_back(*segment);
      if (const auto* raised = std::get_if<AlarmsRaised>(&entry)) alarms.push_back(*raised);
      if (std::holds_alternative<AnomalyFileFailed>(entry)) ++file_failures;
      if (std::holds_alternative<AnomalyFileRecovered>(entry)) ++file_recoveries;
    }
    for (std::string& trouble : board.TakeDiagnostics()) diagnostics.push_back(std::move(trouble));
  }
  bool WaitDrained(PlanId plan) {
    return Eventually([&] {
      Collect();
      return drained.count(plan) == 1;
    });
  }
  bool WaitBegun(size_t plans) {
    return Eventually([&] {
      Collect();
      return begun.size() >= plans;
    });
  }

  // The test drives the drain, and settles the accounts itself.
  void DriveByHand() { finished_ = true; }
  // Ends the run and settles the accounts.
  void Finish(std::chrono::milliseconds deadline = std::chrono::seconds(10)) {
    if (std::exchange(finished_, true)) return;
    plane.plans.Close();
    const SteadyTime give_up_at = std::chrono::steady_clock::now() + deadline;
    CHECK(drain.Stop(give_up_at, give_up_at + std::chrono::seconds(60)) != StopOutcome::kHangs);
    Collect();
    const std::map<PlanId, uint64_t> written = sink->written_by_plan();
    CHECK(drained.size() == begun.size());
    for (const PlanBegan& plan : begun) {
      REQUIRE(drained.count(plan.plan_id) == 1);
      const Ledger& ledger = drained[plan.plan_id].ledger;
      if (!ledger.balanced() || ledger.produced != produced_[plan.plan_id] ||
          ledger.written != (written.count(plan.plan_id) == 1 ? written.at(plan.plan_id) : 0))
        FAIL_CHECK("plan " << plan.plan_id << ": produced " << ledger.produced << " (by the test "
                           << produced_[plan.plan_id] << "), written " << ledger.written << ", dropped "
                           << ledger.dropped_total());
    }
    for (const Record& record : sink->records())
      if (record.pending()) FAIL_CHECK("a sink saw a record without its numbers");
    for (size_t i = 0; i < devices.count(); ++i) {
      CHECK(devices[i].outstanding() == 0);
      CHECK(devices[i].misuse() == "");
    }
  }

  uint64_t Dropped(PlanId plan, DropReason reason) {
    return drained.at(plan).ledger.dropped[static_cast<size_t>(reason)];
  }

  device::FakeDevices devices;
  std::shared_ptr<ScriptedSink> sink;
  StatusBoard board;

 private:
  step::WakeUp wake_up_;
  const SteadyTime start_ = std::chrono::steady_clock::now();
  std::atomic<std::chrono::milliseconds> passed_{std::chrono::milliseconds(0)};

 public:
  stats::Engine engine;
  step::DataPlane plane;
  Drain drain;

  std::vector<PlanBegan> begun;
  std::vector<PlanFinished> ended;
  std::map<PlanId, PlanDrained> drained;
  std::vector<std::string> failures;
  std::vector<std::string> diagnostics;
  int recoveries = 0;
  std::vector<PlanPaused> pauses;
  std::vector<SegmentBegun> segments;
  std::vector<AlarmsRaised> alarms;
  int file_failures = 0;  // of anomaly.json
  int file_recoveries = 0;

 private:
  std::mutex mutex_;
  std::map<PlanId, uint64_t> produced_;  // as the test counted them
  std::vector<float> values_ = {1, 2, 3};
  int64_t size_ = 3;
  TensorView view_ = DenseView(values_.data(), DType::kFloat32, &size_, 1);
  bool finished_ = false;
};

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr std::chrono::seconds kLong{10};  // for what comes at once when all is well

// A run whose drain has started.
struct StartedRun : Run {
  template <class... Setup>
  explicit StartedRun(const Setup&... setup) : Run(setup...) {
    Start();
  }
};

// Hooks that only keep what the last swap asked for.
class RecordingHooks final : public HookTable {
 public:
  void Swap(const RecordLayout* layout, const FrontEndRequests& requests) noexcept override {
    ++swaps;
    plan = layout == nullptr ? 0 : layout->plan_id;
    stacks = requests.stacks;
    communication = requests.communication;
  }
  int swaps = 0;
  PlanId plan = 0;
  bool stacks = false;
  bool communication = false;
};

inline RunSetup OneDevice(size_t results_max = 16384) {
  RunSetup setup;
  setup.devices = 1;
  setup.results_max = results_max;
  return setup;
}

inline void Show(Run& run, SiteId site, float value) {
  run.Observe(site, DenseView(&value, DType::kFloat32, nullptr, 0));
}

}  // namespace stepwatch::drain
