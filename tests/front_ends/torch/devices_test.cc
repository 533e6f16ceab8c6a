// Tensors in CUDA memory as a LibTorch without CUDA can show them, batches, and the threads that LibTorch lends.
#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <stepwatch/torch.h>
#include <torch/csrc/autograd/engine.h>

#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "front_ends/torch/inner_parts.h"
#include "front_ends/torch/tensor_view.h"
#include "front_ends/torch/torch_parallel_for.h"
#include "tests/catch.h"
#include "tests/front_ends/torch/harness.h"

namespace stepwatch::tests {
namespace {

// CUDA devices that have streams and nothing else. Their memory is the host's.
struct PretendedCuda final : c10::impl::DeviceGuardImplInterface {
  static void* StreamOf(int device) {
    return reinterpret_cast<void*>(uintptr_t{0x1000} + static_cast<uintptr_t>(device));
  }

  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return {c10::kCUDA, 0}; }
  c10::Device getDevice() const override { return {c10::kCUDA, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 64; }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return StreamOf(stream.device_index()); }
};

// False where the real CUDA is.
bool PretendCuda() {
  static PretendedCuda cuda;
  static const bool pretends = [] {
    if (c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return false;
    const c10::impl::DeviceGuardImplRegistrar registered(c10::kCUDA, &cuda);
    return true;
  }();
  return pretends;
}

constexpr int kNoSuchDevice = 63;

at::Tensor OnPretendedCuda(std::vector<float>& values) {
  const at::Device device(at::kCUDA, kNoSuchDevice);
  return at::for_blob(values.data(), {static_cast<int64_t>(values.size())})
      .options(at::device(device))
      .target_device(device)
      .make_tensor();
}

bool IsEngineReplaced() {
  return &torch::autograd::Engine::get_default_engine() != &torch::autograd::Engine::get_base_engine();
}

TEST_CASE("forwards and passes are measured only for a model in CPU memory, in a process without CUDA") {
  const Harness harness(R"({"targets": {}, "dynamic_on": false})");
  TorchMonitor monitor(harness.options);
  torch_front::InnerParts parts;
  parts.Open(&monitor.core());
  parts.SetModel(true);
  if (!c10::impl::hasDeviceGuardImpl(c10::kCUDA)) {
    parts.BeginStep(true);
    CHECK(IsEngineReplaced());
    parts.SetModel(false);  // in the middle of the step
    CHECK(!IsEngineReplaced());
    parts.BeginStep(true);
    CHECK(!IsEngineReplaced());
    parts.SetModel(true);
  }
  if (PretendCuda()) {
    parts.BeginStep(true);
    CHECK(!IsEngineReplaced());
    std::optional<PartScope> forward;
    parts.BeginForward(&forward);
    CHECK(!forward.has_value());
  }
  parts.Close();
}

TEST_CASE("a CUDA tensor is shown with its device and the current stream of that device") {
  if (!PretendCuda()) return;
  std::vector<float> values = {1, 2, 3};
  const torch_front::SeenTensor seen = torch_front::See(OnPretendedCuda(values));
  CHECK(seen.problem == nullptr);
  CHECK(seen.view.data == values.data());
  CHECK(seen.view.numel == 3);
  CHECK(seen.view.device.kind == DeviceKind::kCuda);
  CHECK(seen.view.device.index == kNoSuchDevice);
  CHECK(seen.view.stream == PretendedCuda::StreamOf(kNoSuchDevice));
}

TEST_CASE("a CPU tensor is shown without a stream") {
  const torch_front::SeenTensor seen = torch_front::See(torch::ones({2}));
  CHECK(seen.view.device.kind == DeviceKind::kCpu);
  CHECK(seen.view.stream == nullptr);
}

struct HalfOnCuda : torch::nn::Module {
  explicit HalfOnCuda(std::vector<float>& values) {
    here = register_parameter("here", torch::ones({4}));
    there = register_parameter("there", OnPretendedCuda(values), /*requires_grad=*/false);
  }
  torch::Tensor here, there;
};

TEST_CASE("parameters on a device without an engine: an event at attach names the reason, rows count as dropped") {
  if (!PretendCuda()) return;
  Harness harness(R"({"param_distribution": true, "ops": ["norm"], "collect_times": 2})");
  std::vector<float> values = {1, 2, 3};
  HalfOnCuda net(values);
  Watched<torch::optim::SGD> optimizer(net.parameters(), torch::optim::SGDOptions(0.1));
  {
    TorchMonitor monitor(harness.options);
    monitor.Attach(net, optimizer);
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      net.here.sum().backward();
      optimizer.step();
    }
  }
  CHECK(harness.CountEvents(EventKind::kDegraded, "on CUDA device 63 cannot be measured: ") == 1);
  CHECK(harness.Names(SiteKind::kParamOrigin, 0) == "here:0");
  CHECK(harness.Names(SiteKind::kParamUpdated, 1) == "here:0");
  CHECK(harness.LedgersBalance());
}

int Threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

TEST_CASE("LibTorch's threads take part in what they are lent for, each index once, and no further thread is started") {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  (void)torch::ones({1 << 22}).sum();  // starts them
  at::parallel_for(0, 1000, 1, [](int64_t, int64_t) {});
  const int threads = Threads();
  struct Seen {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    std::vector<int> times = std::vector<int>(1000, 0);
  } seen;
  torch_front::RunOnTorchThreads(
      1000,
      [](void* context, int64_t begin, int64_t end) {
        Seen& all = *static_cast<Seen*>(context);
        const std::lock_guard<std::mutex> lock(all.mutex);
        all.threads.insert(std::this_thread::get_id());
        for (int64_t i = begin; i < end; ++i) ++all.times[static_cast<size_t>(i)];
      },
      &seen);
  CHECK(seen.times == std::vector<int>(1000, 1));
  CHECK(seen.threads.size() == 3);
  CHECK(Threads() == threads);
  at::set_num_threads(before);
}

TEST_CASE("within a parallel region of the trainer the lent threads are the caller alone") {
  std::atomic<int> calls{0};
  at::parallel_for(0, 2, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      torch_front::RunOnTorchThreads(
          10,
          [](void* context, int64_t first, int64_t last) {
            *static_cast<std::atomic<int>*>(context) += static_cast<int>(last - first);
          },
          &calls);
  });
  CHECK(calls.load() == 20);
}

// A model whose rows are of four kinds before the update and of one after it.
TEST_CASE("the rows around an update come in the order of the parameters, whatever else is watched") {
  Harness harness(R"({"wg_distribution": true, "param_distribution": true, "mv_distribution": true,
                      "mg_direction": true, "ops": ["norm"], "collect_times": 3})");
  torch::nn::Sequential net(torch::nn::Linear(3, 4), torch::nn::Linear(4, 2));
  Watched<torch::optim::AdamW> optimizer(net->parameters(), torch::optim::AdamWOptions(1e-2));
  {
    TorchMonitor monitor(harness.options);
    monitor.Attach(*net, optimizer);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      net->forward(torch::ones({2, 3})).sum().backward();
      optimizer.step();
    }
  }
  const std::string names = "0.weight:0 0.bias:0 1.weight:0 1.bias:0";
  for (const SiteKind kind : {SiteKind::kGradReduced, SiteKind::kParamOrigin, SiteKind::kParamUpdated,
                              SiteKind::kExpAvg, SiteKind::kExpAvgSq, SiteKind::kMgDirection})
    CHECK(harness.Names(kind, 2) == names);
}

TEST_CASE("a view into a storage that was released is not read") {
  const torch::Tensor whole = torch::ones({8});
  const torch::Tensor part = whole.slice(0, 3);
  whole.storage().unsafeGetStorageImpl()->reset();
  CHECK(torch_front::See(whole).problem != nullptr);
  CHECK(torch_front::See(part).problem != nullptr);
}

}  // namespace
}  // namespace stepwatch::tests
