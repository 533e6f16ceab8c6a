#include "kernels/cuda/cuda_driver.h"

#include <cuda_runtime_api.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda/driver_here.h"
#include "kernels/cuda/kernel_addresses.h"

namespace stepwatch::kernels::cuda {
namespace {

// From this ratio of fp32 to fp64 rate on, sums use trees. Compute parts have 2, all others 32 or 64.
constexpr int kSlowFp64Ratio = 8;

// Clears the error: the trainer's next check of the last error must not find a failure of the monitor.
bool Succeeded(cudaError_t error) {
  if (error == cudaSuccess) return true;
  (void)cudaGetLastError();
  return false;
}

// Switches to the device for one scope. The trainer's thread may use another device.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    if (Succeeded(cudaGetDevice(&before_)) && before_ != device) moved_ = Succeeded(cudaSetDevice(device));
  }
  ~OnDevice() {
    if (moved_) Succeeded(cudaSetDevice(before_));
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
  bool moved_ = false;
};

// While a thread captures a graph, other threads may not allocate or load kernels; trying breaks the capture. Work of
// the monitor is not part of the capture and is marked as such: an engine may be created during a capture.
class OutsideOfCaptures {
 public:
  OutsideOfCaptures() { Succeeded(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~OutsideOfCaptures() { Succeeded(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  OutsideOfCaptures(const OutsideOfCaptures&) = delete;
  OutsideOfCaptures& operator=(const OutsideOfCaptures&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

const void* AddressOf(KernelId kernel) {
  switch (kernel) {
    case KernelId::kFloat64: return kMeasureFloat64;
    case KernelId::kFloat32: return kMeasureFloat32;
    case KernelId::kFloat16: return kMeasureFloat16;
    case KernelId::kBFloat16: return kMeasureBFloat16;
    case KernelId::kFloat8E4M3: return kMeasureFloat8E4M3;
    case KernelId::kFloat8E5M2: return kMeasureFloat8E5M2;
    case KernelId::kInteger64: return kMeasureInteger64;
    case KernelId::kInteger32: return kMeasureInteger32;
    case KernelId::kInteger16: return kMeasureInteger16;
    case KernelId::kInteger8: return kMeasureInteger8;
    case KernelId::kFloat32Tree: return kMeasureFloat32Tree;
    case KernelId::kFloat16Tree: return kMeasureFloat16Tree;
    case KernelId::kBFloat16Tree: return kMeasureBFloat16Tree;
    case KernelId::kFloat8E4M3Tree: return kMeasureFloat8E4M3Tree;
    case KernelId::kFloat8E5M2Tree: return kMeasureFloat8E5M2Tree;
    case KernelId::kAgreement: break;
  }
  return kCompareSigns;
}

bool IsTree(KernelId kernel) {
  return kernel >= KernelId::kFloat32Tree && kernel <= KernelId::kFloat8E5M2Tree;
}

class CudaDriver : public Driver {
 public:
  explicit CudaDriver(int device) : device_(device) {}

  Status Start() {
    const OnDevice guard(device_);
    const OutsideOfCaptures no_capture;
    int ratio = 0;
    if (!Succeeded(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device_)) ||
        !Succeeded(cudaDeviceGetAttribute(&ratio, cudaDevAttrSingleToDoublePrecisionPerfRatio, device_)))
      return Fault("does not respond");
    slow_fp64_ = ratio >= kSlowFp64Ratio;
    for (int i = 0; i < kKernelCount; ++i) {
      cudaFuncAttributes attributes;
      const KernelId kernel = static_cast<KernelId>(i);
      if (IsTree(kernel) && !slow_fp64_) continue;
      if (!Succeeded(cudaFuncGetAttributes(&attributes, AddressOf(kernel))))
        return Fault(
            "has an architecture for which this build has no kernels; `stepwatch doctor` lists the supported ones");
    }
    cudaFuncAttributes attributes;
    int least = 0, greatest = 0;
    if (!Succeeded(cudaFuncGetAttributes(&attributes, kAdvanceStep)) ||
        !Succeeded(cudaDeviceGetStreamPriorityRange(&least, &greatest)) ||
        !Succeeded(cudaStreamCreateWithPriority(&side_, cudaStreamNonBlocking, least)) ||
        !Succeeded(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)))
      return Fault("could not create a stream");
    for (cudaEvent_t& mark : marks_)
      if (!Succeeded(cudaEventCreate(&mark))) return Fault("could not create an event");
    return Status();
  }

  // Queued launches of this driver still write to this memory.
  ~CudaDriver() override {
    if (keep_memory_) return;
    const OnDevice guard(device_);
    Succeeded(cudaDeviceSynchronize());
    for (void* memory : device_memory_) Succeeded(cudaFree(memory));
    for (void* memory : pinned_memory_) Succeeded(cudaFreeHost(memory));
    if (event_ != nullptr) Succeeded(cudaEventDestroy(event_));
    for (cudaEvent_t mark : marks_)
      if (mark != nullptr) Succeeded(cudaEventDestroy(mark));
    if (side_ != nullptr) Succeeded(cudaStreamDestroy(side_));
  }

  uint32_t multiprocessors() const override { return static_cast<uint32_t>(multiprocessors_); }
  bool slow_fp64() const override { return slow_fp64_; }
  Stream side_stream() noexcept override { return side_; }

  void* AllocateDevice(size_t bytes) override {
    const OnDevice guard(device_);
    const OutsideOfCaptures no_capture;
    void* memory = nullptr;
    if (!Succeeded(cudaMalloc(&memory, bytes))) return nullptr;
    device_memory_.push_back(memory);
    // Uses a private stream, so that it does not wait for other work.
    if (!Succeeded(cudaMemsetAsync(memory, 0, bytes, side_)) || !Succeeded(cudaStreamSynchronize(side_)))
      return nullptr;
    return memory;
  }

  Mapped AllocateMapped(size_t bytes) override {
    const OnDevice guard(device_);
    const OutsideOfCaptures no_capture;
    Mapped mapped;
    if (!Succeeded(cudaHostAlloc(&mapped.host, bytes, cudaHostAllocMapped | cudaHostAllocPortable))) return {};
    pinned_memory_.push_back(mapped.host);
    std::memset(mapped.host, 0, bytes);
    if (!Succeeded(cudaHostGetDevicePointer(&mapped.device, mapped.host, 0))) return {};
    return mapped;
  }

  bool Run(KernelId kernel, const Launch& launch, uint32_t grid, Stream stream) noexcept override {
    const OnDevice guard(device_);
    void* arguments[] = {const_cast<Launch*>(&launch)};
    return Succeeded(cudaLaunchKernel(AddressOf(kernel), dim3(grid), dim3(kThreads), arguments, 0,
                                      static_cast<cudaStream_t>(stream)));
  }

  bool Upload(void* to, const void* pinned, size_t bytes, Stream stream) noexcept override {
    const OnDevice guard(device_);
    return Succeeded(cudaMemcpyAsync(to, pinned, bytes, cudaMemcpyHostToDevice, static_cast<cudaStream_t>(stream)));
  }

  bool Advance(uint64_t* step, uint64_t* done, Stream stream) noexcept override {
    const OnDevice guard(device_);
    void* arguments[] = {&step, &done};
    return Succeeded(cudaLaunchKernel(kAdvanceStep, dim3(1), dim3(1), arguments, 0, static_cast<cudaStream_t>(stream)));
  }

  // A wait refers to the recording that was last when it was queued, so one event serves all.
  bool Order(Stream earlier, Stream later) noexcept override {
    const OnDevice guard(device_);
    return Succeeded(cudaEventRecord(event_, static_cast<cudaStream_t>(earlier))) &&
           Succeeded(cudaStreamWaitEvent(static_cast<cudaStream_t>(later), event_, 0));
  }

  bool Mark(size_t mark, Stream stream) noexcept override {
    const OnDevice guard(device_);
    return Succeeded(cudaEventRecord(marks_[mark], static_cast<cudaStream_t>(stream)));
  }

  // Runs on a thread of the monitor, which stays at the device: switching back to another would create a context there.
  bool Elapsed(size_t begin, size_t end, uint64_t* ns) noexcept override {
    const OutsideOfCaptures no_capture;
    float ms = 0;
    if (!Succeeded(cudaSetDevice(device_)) || !Succeeded(cudaEventElapsedTime(&ms, marks_[begin], marks_[end])))
      return false;
    *ns = ms > 0 ? static_cast<uint64_t>(static_cast<double>(ms) * 1e6) : 0;
    return true;
  }

  Capturing CaptureStateOf(Stream stream) noexcept override {
    const OnDevice guard(device_);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    // An error means that the legacy stream cannot be used because another stream captures.
    if (!Succeeded(cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status))) return Capturing::kBlocked;
    if (status == cudaStreamCaptureStatusNone) return Capturing::kNo;
    return status == cudaStreamCaptureStatusActive ? Capturing::kYes : Capturing::kBlocked;
  }

  void KeepMemory() noexcept override { keep_memory_ = true; }

 private:
  Status Fault(const char* what) const {
    return Status(StatusCode::kUnsupported,
                  "CUDA device " + std::to_string(device_) + " " + what + "; its tensors are not measured");
  }

  const int device_;
  int multiprocessors_ = 1;
  bool slow_fp64_ = false;
  bool keep_memory_ = false;
  cudaStream_t side_ = nullptr;
  cudaEvent_t event_ = nullptr;
  std::array<cudaEvent_t, kMarks> marks_{};
  std::vector<void*> device_memory_;
  std::vector<void*> pinned_memory_;
};

}  // namespace

Result<std::unique_ptr<Driver>> CreateCudaDriver(int device) {
  int count = 0;
  if (!Succeeded(cudaGetDeviceCount(&count)) || count == 0)
    return Status(StatusCode::kUnsupported,
                  WhyNoDeviceHere() + " (nvidia-smi shows both); CUDA tensors are not measured");
  if (device < 0 || device >= count)
    return Status(StatusCode::kUnsupported,
                  "unknown CUDA device " + std::to_string(device) + "; accepted: 0 to " + std::to_string(count - 1));
  auto driver = std::make_unique<CudaDriver>(device);
  if (Status status = driver->Start(); !status.ok()) return status;
  return std::unique_ptr<Driver>(std::move(driver));
}

}  // namespace stepwatch::kernels::cuda
