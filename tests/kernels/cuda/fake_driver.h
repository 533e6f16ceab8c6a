// A CUDA device that is none: streams are queues, work runs in the emulation, in ordinary memory.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/driver.h"

namespace stepwatch::kernels::cuda::test {

// The state that the test shares with the driver, which the engine owns. Safe from several threads.
class FakeDevice {
 public:
  explicit FakeDevice(uint64_t seed) : random_(seed) {}

  uint32_t multiprocessors = 3;
  bool slow_fp64 = false;
  bool run_at_once = true;  // otherwise work waits for RunOne or RunAll
  bool refuse_launches = false;
  std::set<Stream> capturing;  // what is queued there is recorded instead of run
  std::set<Stream> blocked;    // nothing may be queued there
  bool memory_kept = false;    // KeepMemory was called
  size_t allocations_allowed = 1000000;

  // Runs one piece of work that may run now, of a random stream. False: nothing is left.
  bool RunOne();
  void RunAll() {
    while (RunOne()) {
    }
  }
  // Queues what was recorded on a stream, once more, on the same or another.
  void Replay(Stream recorded, Stream on);
  void Replay(Stream stream) { Replay(stream, stream); }
  // Discards what was recorded on the stream.
  void DestroyGraph(Stream stream) { recorded_.erase(stream); }

  size_t launches = 0;
  size_t uploads = 0;
  size_t marks = 0;
  uint64_t ns_of_launch = 1000;  // on the device's own clock
  // Launches of unordered streams that shared scratch memory; must stay empty.
  std::string hazards;

 private:
  friend class FakeDriver;
  struct Work {
    enum class Kind { kLaunch, kUpload, kAdvance, kRecord, kWait, kMark } kind;
    KernelId kernel = KernelId::kFloat32;
    Launch launch{};
    uint32_t grid = 0;
    void* to = nullptr;
    void* also_to = nullptr;
    const void* from = nullptr;
    size_t bytes = 0;
    uint64_t event = 0;
  };

  void Queue(Stream stream, std::unique_ptr<Work> work);
  bool RunOneLocked();
  void Execute(const Work& work);
  void LookForHazards(Stream stream, const Launch& launch);

  std::mutex mutex_;
  std::mt19937_64 random_;
  std::map<Stream, std::deque<std::shared_ptr<const Work>>> queues_;
  std::map<Stream, std::vector<std::shared_ptr<const Work>>> recorded_;
  uint64_t last_event_ = 0;
  std::set<uint64_t> events_done_;
  uint64_t clock_ns_ = 0;
  std::map<size_t, uint64_t> marked_ns_;  // of marks that the device has passed since they were queued last
  std::vector<std::unique_ptr<std::vector<uint64_t>>> memory_;
};

inline const Stream kSideStream = reinterpret_cast<Stream>(0x51de);

class FakeDriver : public Driver {
 public:
  explicit FakeDriver(FakeDevice* device) : device_(device) {}
  uint32_t multiprocessors() const override { return device_->multiprocessors; }
  bool slow_fp64() const override { return device_->slow_fp64; }
  void* AllocateDevice(size_t bytes) override;
  Mapped AllocateMapped(size_t bytes) override;
  bool Run(KernelId kernel, const Launch& launch, uint32_t grid, Stream stream) noexcept override;
  bool Upload(void* device, const void* pinned, size_t bytes, Stream stream) noexcept override;
  bool Advance(uint64_t* step, uint64_t* done, Stream stream) noexcept override;
  bool Order(Stream earlier, Stream later) noexcept override;
  bool Mark(size_t mark, Stream stream) noexcept override;
  bool Elapsed(size_t begin, size_t end, uint64_t* ns) noexcept override;
  Capturing CaptureStateOf(Stream stream) noexcept override;
  void KeepMemory() noexcept override { device_->memory_kept = true; }
  Stream side_stream() noexcept override { return kSideStream; }

 private:
  FakeDevice* device_;
};

}  // namespace stepwatch::kernels::cuda::test
