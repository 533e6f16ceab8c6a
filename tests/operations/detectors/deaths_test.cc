// Causes of failed processes, by exceptions, samples and signals.

#include <initializer_list>

#include "operations/detectors/life/exception_words.h"
#include "tests/catch.h"
#include "tests/operations/script.h"

namespace stepwatch::operations {
namespace {

bool AreOfMemory(const std::string& type, const std::string& message) {
  return WordsOf({type, message, ""}).are_of_memory;
}

TEST_CASE("there are many words for no memory, and some that only sound like it") {
  CHECK(AreOfMemory("torch.cuda.OutOfMemoryError", "CUDA out of memory. Tried to allocate 20.00 MiB"));
  CHECK(AreOfMemory("RuntimeError", "[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory"));
  CHECK(AreOfMemory("OSError", "[Errno 12] Cannot allocate memory"));
  CHECK(AreOfMemory("MemoryError", ""));
  CHECK(AreOfMemory("std::bad_alloc", "std::bad_alloc"));
  CHECK(AreOfMemory("RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"));
  CHECK(AreOfMemory("RuntimeError", "CUDA OOM."));
  CHECK_FALSE(AreOfMemory("ValueError", "BLOOM config has no key n_head"));
  CHECK_FALSE(AreOfMemory("ValueError", "cannot open zoom_oom.bin"));
  CHECK_FALSE(AreOfMemory("ValueError", "meeting room 4 not found"));
}

TEST_CASE("an exception after minutes of training is another fault than the one before") {
  Script script;
  for (int i = 0; i < 2; ++i) script.Train(200).Event(ExceptionEvent{"ValueError", "bad sample 17", ""}, 1);
  CHECK(OpenedIn(Replay(script.Train(100).lines)).size() == 2);
}

TEST_CASE("a fatal code that comes alone in training is a fault in the first minute too, a sampler's first is not") {
  Script alone;
  alone.Train(60).Event(GpuEvent{"GPU-1", "xid", 79}, 1);
  RequireOne(Replay(alone.Train(20).lines), IncidentKind::kGpuFault, {1});

  Script sampled;
  sampled.Train(60);
  for (int64_t rank = 0; rank < 4; ++rank)
    sampled.Event(GpuEvent{"GPU-" + std::to_string(rank), "xid", rank == 1 ? 79.0 : 0.0}, rank);
  CHECK(OpenedIn(Replay(sampled.Train(20).lines)).empty());
}

TEST_CASE("a code that is taken back for good ends the fault of its GPU, a single sample of nothing does not") {
  Script script;
  script.Train(200).Event(GpuEvent{"GPU-1", "xid", 94}, 1);
  for (const double value : {0.0, 94.0, 0.0}) script.Train(10).Event(GpuEvent{"GPU-1", "xid", value}, 1);
  const Incident incident = RequireOne(Replay(script.lines));
  CHECK_FALSE(IsResolved(Replay(script.lines), incident.id));
  CHECK(IsResolved(Replay(script.Train(100).lines), incident.id));
  CHECK(OpenedIn(Replay(script.lines)).size() == 1);
}

TEST_CASE("a fault of two GPUs is over when both are well") {
  Script script;
  script.Train(200);
  for (const int64_t rank : {1, 2}) script.Event(GpuEvent{"GPU-" + std::to_string(rank), "xid", 95}, rank);
  const Incident incident = RequireOne(Replay(script.lines));
  script.Event(GpuEvent{"GPU-1", "xid", 0}, 1).Train(100);
  CHECK_FALSE(IsResolved(Replay(script.lines), incident.id));
  script.Event(GpuEvent{"GPU-2", "xid", 0}, 2).Train(100);
  CHECK(IsResolved(Replay(script.lines), incident.id));
}

TEST_CASE("a GPU that is lost is a fault at once") {
  Script script;
  script.Event(GpuEvent{"GPU-1", "lost", 0}, 1).Train(60).Event(GpuEvent{"GPU-1", "lost", 1}, 1);
  const Incident incident = RequireOne(Replay(script.lines), IncidentKind::kGpuFault, {1});
  CHECK(incident.severity == Severity::kCritical);
}

TEST_CASE("an NVLink that goes down for two samples is a fault until it is up, one that was never up is none") {
  const auto add = [](Script* script, std::initializer_list<double> down) {
    for (const double value : down) script->Train(10).Event(GpuEvent{"GPU-1", "nvlink_down", value}, 1);
  };
  Script script;
  add(&script, {2, 2, 3, 2, 2});
  CHECK(OpenedIn(Replay(script.lines)).empty());
  add(&script, {3, 3, 3});
  const Incident incident = RequireOne(Replay(script.lines), IncidentKind::kGpuFault, {1});
  add(&script, {2});
  CHECK_FALSE(IsResolved(Replay(script.lines), incident.id));
  CHECK(IsResolved(Replay(script.Train(100).lines), incident.id));
}

TEST_CASE("hardware that holds clocks back for most of half a minute is a warning until it has stopped for as long") {
  const auto add = [](Script* script, std::initializer_list<double> slow) {
    for (const double value : slow) script->Train(10).Event(GpuEvent{"GPU-1", "hw_slowdown", value}, 1);
  };
  Script script;
  add(&script, {0, 1, 0, 0, 1, 1, 0, 0, 0});
  CHECK(OpenedIn(Replay(script.lines)).empty());
  add(&script, {1, 1, 1, 0, 1, 1, 1, 1});
  const Incident incident = RequireOne(Replay(script.lines), IncidentKind::kGpuFault, {1});
  CHECK(incident.severity == Severity::kWarning);
  add(&script, {0, 0, 1, 0});
  CHECK_FALSE(IsResolved(Replay(script.lines), incident.id));
  CHECK(IsResolved(Replay(script.Train(100).lines), incident.id));
}

TEST_CASE("processes that go after a signal without a rank were asked to") {
  Script script;
  script.Train(60).Event(SignalEvent{15});
  for (int64_t rank = 0; rank < 4; ++rank) script.Event(ProcessGoneEvent{}, rank);
  CHECK(OpenedIn(Replay(script.lines, 100)).empty());
}

TEST_CASE("a kill waits for the next sample of its host, unless one was taken at the moment of it") {
  const auto delay = [](double sampled_before) {
    Script script;
    script.Event(HostEvent{"", 0.0, 1.0}).Train(60).Event(HostEvent{"", 0.0, 1.0});
    script.t += sampled_before;
    script.Event(ProcessGoneEvent{}, 2);
    const double gone_t = script.t;
    const Incident incident = RequireOne(Replay(script.lines, 20), IncidentKind::kProcessLost);
    return incident.t - gone_t;
  };
  CHECK(delay(0) < 1.5);
  CHECK(delay(0.4) > 2);
}

TEST_CASE("an end in error does not begin the wait for a better reason of a process that went before anew") {
  Script script;
  script.Train(60).Event(ProcessGoneEvent{}, 2);
  const double gone_t = script.t;
  script.t += 0.75;
  script.Event(EndEvent{EndReason::kError}, 1);
  const Incident incident = RequireOne(Replay(script.lines, 20), IncidentKind::kProcessLost, {2});
  CHECK(incident.t - gone_t < 1.5);
}

}  // namespace
}  // namespace stepwatch::operations
