// The engine on a real device, as one plain program: gpu_check [--small]. Exit code 0: all is right, or there is no
// device; 1: something is wrong, and every mistake was printed. --small is for compute-sanitizer, which is slow.

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/cuda_driver.h"
#include "kernels/cuda/engine.h"
#include "kernels/reference.h"
#include "tests/kernels/cuda/device_tensor.h"

namespace stepwatch::kernels::cuda::test {
namespace {

using kernels::test::Difference;
using kernels::test::kAllDTypes;

int mistakes = 0;

void Expect(bool right, const std::string& what) {
  if (right) return;
  if (++mistakes <= 40) std::printf("WRONG: %s\n", what.c_str());
}

void Must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("WRONG: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

// The real driver with another idea of the device's size and of its fp64.
class Disguise : public Driver {
 public:
  Disguise(std::unique_ptr<Driver> driver, uint32_t multiprocessors, bool slow_fp64)
      : driver_(std::move(driver)), multiprocessors_(multiprocessors), slow_fp64_(slow_fp64) {}
  uint32_t multiprocessors() const override { return multiprocessors_; }
  bool slow_fp64() const override { return slow_fp64_; }
  void* AllocateDevice(size_t bytes) override { return driver_->AllocateDevice(bytes); }
  Mapped AllocateMapped(size_t bytes) override { return driver_->AllocateMapped(bytes); }
  bool Run(KernelId kernel, const Launch& launch, uint32_t grid, Stream stream) noexcept override {
    return driver_->Run(kernel, launch, grid, stream);
  }
  bool Upload(void* device, const void* pinned, size_t bytes, Stream stream) noexcept override {
    return driver_->Upload(device, pinned, bytes, stream);
  }
  bool Advance(uint64_t* step, uint64_t* done, Stream stream) noexcept override {
    return driver_->Advance(step, done, stream);
  }
  bool Order(Stream earlier, Stream later) noexcept override { return driver_->Order(earlier, later); }
  bool Mark(size_t mark, Stream stream) noexcept override { return driver_->Mark(mark, stream); }
  bool Elapsed(size_t begin, size_t end, uint64_t* ns) noexcept override { return driver_->Elapsed(begin, end, ns); }
  Capturing CaptureStateOf(Stream stream) noexcept override { return driver_->CaptureStateOf(stream); }
  void KeepMemory() noexcept override { driver_->KeepMemory(); }
  Stream side_stream() noexcept override { return driver_->side_stream(); }

 private:
  std::unique_ptr<Driver> driver_;
  uint32_t multiprocessors_;
  bool slow_fp64_;
};

std::unique_ptr<Driver> MakeDriver() {
  auto driver = CreateCudaDriver(0);
  if (!driver.ok()) {
    std::printf("WRONG: %s\n", driver.status().message().c_str());
    std::exit(1);
  }
  return std::move(driver).value();
}

std::unique_ptr<DeviceEngine> MakeEngine(uint32_t multiprocessors, DeviceEngineOptions options = {},
                                         bool slow_fp64 = false) {
  auto driver = std::make_unique<Disguise>(MakeDriver(), multiprocessors, slow_fp64);
  auto engine = Engine::Create(std::move(driver), options);
  if (!engine.ok()) {
    std::printf("WRONG: %s\n", engine.status().message().c_str());
    std::exit(1);
  }
  return std::move(engine).value();
}

// A copy on the device, in memory that ends where the tensor does.
class OnDevice {
 public:
  explicit OnDevice(const DeviceTensor& tensor) : view_(tensor.view) {
    Must(cudaMalloc(&memory_, std::max<size_t>(tensor.memory.size(), 1)), "cudaMalloc");
    Must(cudaMemcpy(memory_, tensor.memory.data(), tensor.memory.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    view_.data = static_cast<char*>(memory_) + (static_cast<const std::byte*>(tensor.view.data) - tensor.memory.data());
  }
  ~OnDevice() { cudaFree(memory_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  const TensorView& view() const { return view_; }
  void* memory() const { return memory_; }

 private:
  TensorView view_;
  void* memory_ = nullptr;
};

std::vector<Statistics> MeasureAll(DeviceEngine* engine, const std::vector<TensorView>& views,
                                   const MeasureOptions& options, const std::string& what) {
  std::vector<DeviceItem> items(views.size());
  for (size_t i = 0; i < views.size(); ++i) items[i].tensor = views[i];
  engine->Enqueue(items.data(), items.size(), options);
  Must(cudaDeviceSynchronize(), what.c_str());
  std::vector<Statistics> found(views.size());
  for (size_t i = 0; i < views.size(); ++i)
    Expect(items[i].code == StatusCode::kOk && engine->Harvest(items[i].ticket, &found[i]),
           what + ": no result for " + Describe(views[i]));
  return found;
}

void CheckRandomTensors(int rounds) {
  std::mt19937_64 random(1);
  const auto one = MakeEngine(1), three = MakeEngine(3), many = MakeEngine(200);
  for (int round = 0; round < rounds; ++round) {
    std::vector<DeviceTensor> tensors(static_cast<size_t>(round % 5 == 0 ? 90 : 7));
    std::vector<std::unique_ptr<OnDevice>> copies;
    std::vector<TensorView> views;
    for (DeviceTensor& tensor : tensors) {
      tensor = AnyTensor(&random);
      // A device reads an element only where its size divides the address, unless bytes are read one by one; both
      // happen here.
      copies.push_back(std::make_unique<OnDevice>(tensor));
      views.push_back(copies.back()->view());
    }
    const MeasureOptions options{round % 3 == 0 ? 0.25 : 1e-8, round % 2 == 0 ? EpsMode::kParity : EpsMode::kExact};
    for (DeviceEngine* engine : {one.get(), three.get(), many.get()}) {
      const auto found = MeasureAll(engine, views, options, "random");
      for (size_t i = 0; i < tensors.size(); ++i) {
        const std::string names = Difference(found[i], Expected(tensors[i].view, options));
        Expect(names.empty(), Describe(tensors[i].view) + " differs in " + names);
      }
    }
  }
}

void CheckLargeTensors(int64_t bytes) {
  std::mt19937_64 random(2);
  const auto few = MakeEngine(7), many = MakeEngine(132);
  for (DType dtype : kAllDTypes) {
    for (int shift : {0, ElementSize(dtype)}) {
      const DeviceTensor tensor = FlatTensor(dtype, bytes / ElementSize(dtype) + 13, shift, Fill::kFewSpecial, &random);
      const OnDevice copy(tensor);
      const Statistics expected = Expected(tensor.view, {});
      for (DeviceEngine* engine : {few.get(), many.get()})
        for (int repeat = 0; repeat < 3; ++repeat)
          Expect(Difference(MeasureAll(engine, {copy.view()}, {}, "large")[0], expected).empty(),
                 "large " + Describe(tensor.view));
    }
  }
}

void CheckTrees() {
  std::mt19937_64 random(3);
  const auto engine = MakeEngine(5, {}, true), other = MakeEngine(132, {}, true);
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2}) {
    for (Fill fill : {Fill::kOrdinary, Fill::kTiny, Fill::kHuge}) {
      const DeviceTensor tensor = FlatTensor(dtype, 300001, 0, fill, &random);
      const OnDevice copy(tensor);
      const Statistics expected = Expected(tensor.view, {});
      const Statistics found = MeasureAll(engine.get(), {copy.view()}, {}, "trees")[0];
      Expect(std::abs(found.norm - expected.norm) <= 4e-7 * expected.norm && found.min == expected.min &&
                 found.max == expected.max && found.zeros == expected.zeros,
             "trees of " + Describe(tensor.view));
      Expect(Difference(found, MeasureAll(other.get(), {copy.view()}, {}, "trees")[0]).empty(), "trees, other grid");
    }
  }
}

void CheckAgreement(int rounds) {
  std::mt19937_64 random(4);
  const auto engine = MakeEngine(13);
  for (int round = 0; round < rounds; ++round) {
    const DeviceTensor a = AnyTensor(&random);
    if (a.view.numel == 0) continue;
    DeviceTensor b =
        FlatTensor(round % 2 == 0 ? a.view.dtype : DType::kFloat32, a.view.numel, 0, Fill::kAnyBits, &random);
    const TensorView flat = b.view;
    b.view = DenseView(flat.data, flat.dtype, a.view.sizes.data(), a.view.ndim);
    b.view.device = flat.device;
    const OnDevice copy_a(a), copy_b(b);
    Statistics found;
    double expected = 0;
    const Status reference = reference::SignAgreement(OnCpu(a.view), OnCpu(b.view), &expected);
    const DeviceItem item = engine->EnqueueAgreement(copy_a.view(), copy_b.view(), 0);
    Must(cudaDeviceSynchronize(), "agreement");
    Expect(reference.ok() && item.code == StatusCode::kOk && engine->Harvest(item.ticket, &found) &&
               found.mean == expected,
           "agreement of " + Describe(a.view) + " and " + Describe(b.view));
  }
}

void Sleep(void* milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(*static_cast<int*>(milliseconds)));
}

// With the stream held up, queueing must not wait, results must not be there, and the reader must not either.
void CheckThatNothingWaits() {
  std::mt19937_64 random(5);
  DeviceEngineOptions options;
  options.slots = 1024;
  const auto engine = MakeEngine(132, options);
  const DeviceTensor tensor = FlatTensor(DType::kFloat32, 100000, 0, Fill::kOrdinary, &random);
  const OnDevice copy(tensor);
  cudaStream_t stream;
  Must(cudaStreamCreate(&stream), "stream");
  static int pause = 500;
  Must(cudaLaunchHostFunc(stream, Sleep, &pause), "cudaLaunchHostFunc");
  std::vector<DeviceItem> items(1030, DeviceItem{copy.view()});
  for (DeviceItem& item : items) item.tensor.stream = stream;
  const auto begin = std::chrono::steady_clock::now();
  engine->Enqueue(items.data(), 5, {});
  engine->Enqueue(items.data() + 5, items.size() - 5, {});
  Statistics found;
  Expect(!engine->Harvest(items[0].ticket, &found), "a result is there before the device began");
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  Expect(seconds < 0.25, "queueing waited for the device");
  Expect(cudaStreamQuery(stream) == cudaErrorNotReady, "the stream was not held up, so this proves nothing");
  int exhausted = 0;
  for (const DeviceItem& item : items) exhausted += item.code == StatusCode::kExhausted ? 1 : 0;
  Expect(exhausted == 6, "a full ring refuses what is beyond it");
  Must(cudaStreamSynchronize(stream), "stream");
  const Statistics expected = Expected(tensor.view, {});
  for (const DeviceItem& item : items)
    if (item.code == StatusCode::kOk)
      Expect(engine->Harvest(item.ticket, &found) && Difference(found, expected).empty(), "after the pause");
  cudaStreamDestroy(stream);
}

// The time on the device is known after the measurements, is that of their accounts, and is less than the wall clock's.
void CheckTimes() {
  std::mt19937_64 random(8);
  const auto engine = MakeEngine(132);
  const DeviceTensor tensor = FlatTensor(DType::kFloat32, 1 << 22, 0, Fill::kOrdinary, &random);
  const OnDevice copy(tensor);
  DeviceTimes ns{};
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 20; ++round) {
    std::vector<DeviceItem> items(8, DeviceItem{copy.view()});
    for (DeviceItem& item : items) item.account = 3;
    engine->Enqueue(items.data(), items.size(), {});
    Must(cudaDeviceSynchronize(), "times");
    engine->TakeTimes(&ns);
    Statistics found;
    for (const DeviceItem& item : items) Expect(engine->Harvest(item.ticket, &found), "times: no result");
  }
  const double wall_ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
  Expect(ns[3] > 0 && static_cast<double>(ns[3]) < wall_ns, "the time of the measurements");
  for (size_t account = 0; account < ns.size(); ++account)
    Expect(account == 3 || ns[account] == 0, "the time of an account without measurements");
}

void CheckSideStream() {
  std::mt19937_64 random(6);
  DeviceEngineOptions options;
  options.side_stream = true;
  const auto engine = MakeEngine(132, options);
  const DeviceTensor first = FlatTensor(DType::kFloat32, 1 << 22, 0, Fill::kOrdinary, &random);
  const DeviceTensor second = FlatTensor(DType::kFloat32, 1 << 22, 0, Fill::kTiny, &random);
  const OnDevice source(first), next(second), target(second);
  cudaStream_t stream;
  Must(cudaStreamCreate(&stream), "stream");
  const Statistics expected = Expected(first.view, {});
  for (int round = 0; round < 20; ++round) {
    const size_t bytes = first.memory.size();
    Must(cudaMemcpyAsync(target.memory(), source.memory(), bytes, cudaMemcpyDeviceToDevice, stream), "copy");
    DeviceItem item{target.view()};
    item.tensor.stream = stream;
    engine->Enqueue(&item, 1, {});
    Must(cudaMemcpyAsync(target.memory(), next.memory(), bytes, cudaMemcpyDeviceToDevice, stream), "copy");
    Must(cudaDeviceSynchronize(), "side stream");
    Statistics found;
    Expect(engine->Harvest(item.ticket, &found) && Difference(found, expected).empty(), "beside the producer");
  }
  cudaStreamDestroy(stream);
}

// A graph that reads two tensors, captured on one stream and replayed on another while the host runs ahead.
void CheckGraph() {
  std::mt19937_64 random(7);
  auto engine = MakeEngine(132);
  const DeviceTensor small = FlatTensor(DType::kBFloat16, 1000, 0, Fill::kOrdinary, &random);
  const DeviceTensor large = FlatTensor(DType::kFloat32, 20 << 20, 0, Fill::kOrdinary, &random);  // two groups
  const OnDevice a(small), b(large);
  cudaStream_t capture, stream;
  Must(cudaStreamCreateWithFlags(&capture, cudaStreamNonBlocking), "stream");
  Must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  DeviceItem items[2] = {{a.view()}, {b.view()}};
  items[0].tensor.stream = items[1].tensor.stream = capture;
  Must(cudaStreamBeginCapture(capture, cudaStreamCaptureModeGlobal), "begin capture");
  engine->Enqueue(items, 2, {});
  uint64_t ended = 0;
  Expect(engine->EndGraphStep(capture, &ended) == StatusCode::kUnsupported, "a step ended inside of a graph");
  // An engine of another device may be made in the middle of a capture, which must not break it.
  const auto beside = CreateCudaDriver(0);
  Expect(beside.ok() && beside.value()->AllocateDevice(4096) != nullptr &&
             beside.value()->AllocateMapped(4096).host != nullptr,
         "memory during a capture");
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  Must(cudaStreamEndCapture(capture, &graph), "end capture");
  Must(cudaGraphInstantiate(&replay, graph, 0), "instantiate");
  Expect(items[0].captured && items[0].code == StatusCode::kOk && items[1].code == StatusCode::kOk, "capture");
  const Statistics expected_a = Expected(small.view, {}), expected_b = Expected(large.view, {});
  for (uint64_t step = 0; step < 12; ++step) {
    Expect(engine->SwitchGraphs(stream, step % 4 != 3) == StatusCode::kOk, "switch");
    for (uint64_t replays = step % 3; replays > 0; --replays) Must(cudaGraphLaunch(replay, stream), "replay");
    Expect(engine->EndGraphStep(stream, &ended) == StatusCode::kOk && ended == step, "end of step");
  }
  Must(cudaStreamSynchronize(stream), "replay");
  for (uint64_t step = 0; step < 12; ++step) {
    const GraphAnswer right = step % 4 != 3 && step % 3 > 0 ? GraphAnswer::kThere : GraphAnswer::kNone;
    Statistics found;
    Expect(engine->HarvestGraph(static_cast<uint32_t>(items[0].ticket), step, &found) == right &&
               (right == GraphAnswer::kNone || Difference(found, expected_a).empty()),
           "replay of a, step " + std::to_string(step));
    Expect(engine->HarvestGraph(static_cast<uint32_t>(items[1].ticket), step, &found) == right &&
               (right == GraphAnswer::kNone || Difference(found, expected_b).empty()),
           "replay of b, step " + std::to_string(step));
  }
  engine.reset();  // a graph may outlive it, and writes to memory that is still there
  Must(cudaGraphLaunch(replay, stream), "replay without an engine");
  Must(cudaStreamSynchronize(stream), "replay without an engine");
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(capture);
  cudaStreamDestroy(stream);
}

int Main(bool small) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("gpu_check: there is no CUDA device here; nothing was checked\n");
    return 0;
  }
  CheckRandomTensors(small ? 4 : 60);
  CheckLargeTensors(small ? 300000 : 40 << 20);
  CheckTrees();
  CheckAgreement(small ? 10 : 200);
  CheckThatNothingWaits();
  CheckTimes();
  CheckSideStream();
  CheckGraph();
  std::printf("gpu_check: %d mistakes\n", mistakes);
  return mistakes == 0 ? 0 : 1;
}

}  // namespace
}  // namespace stepwatch::kernels::cuda::test

int main(int argc, char** argv) {
  return stepwatch::kernels::cuda::test::Main(argc > 1 && std::strcmp(argv[1], "--small") == 0);
}
