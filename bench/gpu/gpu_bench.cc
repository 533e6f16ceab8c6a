// Measures the speed of the CUDA engine next to its upper limits in the same run: gpu_bench [--json FILE]
//
// Device times of single tensors are those of a replayed graph, without launch gaps; the L2 is cold, because the
// buffers of a graph together are larger. Engine and limit take turns; the table gives medians and the range.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/gpu/ceilings.h"
#include "kernels/cuda/cuda_driver.h"
#include "kernels/cuda/engine.h"
#include "kernels/cuda/graph_slots.h"

namespace stepwatch::bench {
namespace {

using kernels::DeviceItem;
using kernels::cuda::Driver;
using kernels::cuda::GraphSlots;

constexpr int kRounds = 11;
constexpr size_t kColdBytes = size_t{256} << 20;  // more than any L2

void Must(bool right, const char* what) {
  if (right) return;
  std::printf("gpu_bench: %s failed: %s\n", what, cudaGetErrorString(cudaGetLastError()));
  std::exit(1);
}

void Must(cudaError_t error, const char* what) {
  Must(error == cudaSuccess, what);
}

struct Range {
  double median = 0, low = 0, high = 0;
};

Range RangeOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

struct Row {
  std::string name;
  std::string measured;
  std::string ceiling;
  Range ratio;
  double target = 0;  // 0: none
};

struct Time {
  std::string name;
  double seconds;
};

struct Report {
  std::vector<Row> rows;
  std::vector<Time> times;  // for six_torch_ops.py
};

// Random normal numbers of one dtype on the device.
class Buffers {
 public:
  Buffers(DType dtype, size_t bytes, size_t count) : dtype_(dtype), bytes_(bytes) {
    for (size_t i = 0; i < count; ++i) {
      void* memory = nullptr;
      Must(cudaMalloc(&memory, bytes), "cudaMalloc");
      memory_.push_back(memory);
    }
    Fill();
  }
  ~Buffers() {
    for (void* memory : memory_) cudaFree(memory);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  size_t count() const { return memory_.size(); }
  void* operator[](size_t i) const { return memory_[i]; }
  TensorView View(size_t i, Stream stream) const {
    const int64_t numel = static_cast<int64_t>(bytes_) / ElementSize(dtype_);
    TensorView view = DenseView(memory_[i], dtype_, &numel, 1);
    view.device = Device{DeviceKind::kCuda, 0};
    view.stream = stream;
    return view;
  }

 private:
  void Fill() {
    std::vector<unsigned char> block(std::min(bytes_, size_t{1} << 22));
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 0.02f);
    const size_t size = static_cast<size_t>(ElementSize(dtype_));
    for (size_t i = 0; i + size <= block.size(); i += size) {
      const float x = normal(random);
      uint32_t bits;
      std::memcpy(&bits, &x, 4);
      if (dtype_ == DType::kBFloat16) bits >>= 16;
      if (dtype_ == DType::kFloat16) bits = (bits >> 16 & 0x8000) | ((bits >> 13) - (112u << 10)) % 0x7c00;
      if (size == 1) bits = static_cast<uint32_t>(random()) % 0x7e;  // any finite number of the format
      std::memcpy(&block[i], &bits, size);
    }
    for (void* memory : memory_)
      for (size_t done = 0; done < bytes_; done += block.size())
        Must(cudaMemcpy(static_cast<char*>(memory) + done, block.data(), std::min(block.size(), bytes_ - done),
                        cudaMemcpyHostToDevice),
             "cudaMemcpy");
  }

  DType dtype_;
  size_t bytes_;
  std::vector<void*> memory_;
};

// A timed graph of the work that `record` queues.
class Graph {
 public:
  template <class Record>
  Graph(cudaStream_t stream, Record record) : stream_(stream) {
    cudaGraph_t graph;
    Must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "begin capture");
    record();
    Must(cudaStreamEndCapture(stream, &graph), "end capture");
    Must(cudaGraphInstantiate(&replay_, graph, 0), "instantiate");
    cudaGraphDestroy(graph);
    Must(cudaEventCreate(&begin_), "event");
    Must(cudaEventCreate(&end_), "event");
    Seconds();  // warm-up
  }
  ~Graph() {
    cudaGraphExecDestroy(replay_);
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  double Seconds() {
    Must(cudaEventRecord(begin_, stream_), "event");
    Must(cudaGraphLaunch(replay_, stream_), "replay");
    Must(cudaEventRecord(end_, stream_), "event");
    Must(cudaEventSynchronize(end_), "event");
    float milliseconds = 0;
    Must(cudaEventElapsedTime(&milliseconds, begin_, end_), "event");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t replay_;
  cudaEvent_t begin_, end_;
};

std::string GigabytesPerSecond(double bytes, double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, "%.0f GB/s", bytes / seconds * 1e-9);
  return text;
}

std::string Microseconds(double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f us", seconds * 1e6);
  return text;
}

double TargetFor(DType dtype, size_t megabytes) {
  if (ElementSize(dtype) == 1) return megabytes >= 64 ? 0.60 : 0;
  return megabytes >= 64 ? 0.92 : megabytes >= 16 ? 0.85 : 0.70;
}

// Measures launches of one tensor each, over the read-only kernel and over a copy.
void MeasureBandwidth(Driver* driver, DType dtype, const char* name, size_t megabytes, cudaStream_t stream,
                      Report* report) {
  const size_t bytes = megabytes << 20;
  const size_t count = std::max<size_t>(4, kColdBytes / bytes);
  const Buffers buffers(dtype, bytes, count);
  void* memory = nullptr;
  Must(cudaMalloc(&memory, 4), "cudaMalloc");
  uint32_t* sink = static_cast<uint32_t*>(memory);
  kernels::cuda::GraphSlotsOptions options;
  options.slots = static_cast<uint32_t>(count);
  auto slots = std::move(GraphSlots::Create(driver, options)).value();
  const uint32_t grid = 4 * driver->multiprocessors();
  Graph engine(stream, [&] {
    for (size_t i = 0; i < count; ++i) {
      DeviceItem item{buffers.View(i, stream)};
      slots->Capture(&item, 1, {}, stream);
      Must(item.code == StatusCode::kOk, "capture");
    }
  });
  Graph read(stream, [&] {
    for (size_t i = 0; i < count; ++i) Must(ReadOnly(buffers[i], bytes, grid, sink, stream), "read");
  });
  Graph copy(stream, [&] {
    for (size_t i = 0; i + 1 < count; i += 2)
      Must(cudaMemcpyAsync(buffers[i], buffers[i + 1], bytes, cudaMemcpyDeviceToDevice, stream), "copy");
  });
  std::vector<double> over_read, over_copy, seconds, ceiling;
  for (int round = 0; round < kRounds; ++round) {
    seconds.push_back(engine.Seconds());
    ceiling.push_back(read.Seconds());
    over_read.push_back(ceiling.back() / seconds.back());
    over_copy.push_back(copy.Seconds() / seconds.back());  // both move count * bytes
  }
  const double total = static_cast<double>(bytes * count), median = RangeOf(seconds).median;
  const std::string label = std::string("gpu_") + name + "_" + std::to_string(megabytes) + "mb_cold";
  report->rows.push_back({label + "_over_read", GigabytesPerSecond(total, median),
                          GigabytesPerSecond(total, RangeOf(ceiling).median), RangeOf(over_read),
                          TargetFor(dtype, megabytes)});
  report->rows.push_back({label + "_over_copy", GigabytesPerSecond(total, median), "", RangeOf(over_copy),
                          megabytes >= 64 && ElementSize(dtype) > 1 ? 0.90 : 0});
  report->times.push_back(
      {std::string(name) + "_" + std::to_string(megabytes) + "mb", median / static_cast<double>(count)});
  cudaFree(memory);
}

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Adds a time against its target: a ratio of 1 or more meets it.
void AddTime(Report* report, const std::string& name, const std::vector<double>& seconds, double target) {
  const Range time = RangeOf(seconds);
  const Range ratio = {target / time.median, target / time.high, target / time.low};
  report->rows.push_back({name, Microseconds(time.median), "", ratio, 1});
  char text[32];
  std::snprintf(text, sizeof text, "%.1f us", target * 1e6);
  report->rows.back().ceiling = text;
}

void HarvestAll(kernels::DeviceEngine* engine, const std::vector<DeviceItem>& items) {
  Statistics statistics;
  for (const DeviceItem& item : items)
    Must(item.code == StatusCode::kOk && engine->Harvest(item.ticket, &statistics), "harvest");
}

// Measures a thousand small tensors in one table. The device waits while the host queues, so that its time excludes the
// host's.
void MeasureThousand(DType dtype, const char* name, double device_target, cudaStream_t stream, Report* report) {
  auto engine = std::move(kernels::CreateCudaEngine({})).value();
  const Buffers buffers(dtype, static_cast<size_t>(4096 * ElementSize(dtype)), 1000);
  const Buffers flush(DType::kFloat32, kColdBytes, 1);
  std::vector<DeviceItem> items(1000);
  for (size_t i = 0; i < items.size(); ++i) items[i].tensor = buffers.View(i, stream);
  cudaEvent_t begin, end;
  Must(cudaEventCreate(&begin), "event");
  Must(cudaEventCreate(&end), "event");
  std::vector<double> host, device, both;
  for (int round = 0; round < 2 * kRounds; ++round) {
    Must(cudaMemsetAsync(flush[0], round, kColdBytes, stream), "flush");
    Must(Spin(4000000, stream), "spin");
    Must(cudaEventRecord(begin, stream), "event");
    const double start = Now();
    engine->Enqueue(items.data(), items.size(), {});
    const double queued = Now() - start;
    Must(cudaEventRecord(end, stream), "event");
    Must(cudaStreamSynchronize(stream), "stream");
    float milliseconds = 0;
    Must(cudaEventElapsedTime(&milliseconds, begin, end), "event");
    HarvestAll(engine.get(), items);
    if (round < 2) continue;  // the first rounds make and upload the table
    host.push_back(queued);
    device.push_back(static_cast<double>(milliseconds) * 1e-3);
    both.push_back(host.back() + device.back());
  }
  const std::string label = std::string("gpu_1000x4096_") + name;
  AddTime(report, label + "_device", device, device_target);
  AddTime(report, label + "_host", host, 8e-6);
  for (double& seconds : host) seconds /= 1000;
  AddTime(report, label + "_host_per_pushed_tensor", host, 0.3e-6);
  report->times.push_back({std::string("1000x4096_") + name, RangeOf(both).median});
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
}

// Measures the host time of one tensor at a time, as in a hook. The queue stays short: a full one would block.
void MeasureHook(cudaStream_t stream, Report* report) {
  auto engine = std::move(kernels::CreateCudaEngine({})).value();
  const Buffers buffers(DType::kBFloat16, size_t{1} << 20, 1);
  std::vector<double> seconds;
  for (int round = 0; round < 50; ++round) {
    std::vector<DeviceItem> items(100);
    for (DeviceItem& item : items) item.tensor = buffers.View(0, stream);
    const double start = Now();
    for (DeviceItem& item : items) engine->Enqueue(&item, 1, {});
    seconds.push_back((Now() - start) / static_cast<double>(items.size()));
    Must(cudaStreamSynchronize(stream), "stream");
    HarvestAll(engine.get(), items);
  }
  AddTime(report, "gpu_hook_host", seconds, 3e-6);
}

void Print(const Report& report, const char* device) {
  std::printf("%s\n%-44s %12s %18s %8s %17s %8s\n", device, "what", "measured", "ceiling or target", "ratio", "range",
              "at least");
  for (const Row& row : report.rows) {
    char target[16] = "";
    if (row.target > 0) std::snprintf(target, sizeof target, "%.2f", row.target);
    std::printf("%-44s %12s %18s %8.3f %8.3f-%8.3f %8s%s\n", row.name.c_str(), row.measured.c_str(),
                row.ceiling.c_str(), row.ratio.median, row.ratio.low, row.ratio.high, target,
                row.ratio.median < row.target ? "  missed" : "");
  }
}

bool WriteJson(const Report& report, const char* path) {
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return false;
  std::fprintf(file, "{\"ratios\": [");
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const Row& row = report.rows[i];
    std::fprintf(file, "%s\n  {\"name\": \"%s\", \"ratio\": %.4f, \"spread\": [%.4f, %.4f]}", i == 0 ? "" : ",",
                 row.name.c_str(), row.ratio.median, row.ratio.low, row.ratio.high);
  }
  std::fprintf(file, "\n], \"seconds\": {");
  for (size_t i = 0; i < report.times.size(); ++i)
    std::fprintf(file, "%s\"%s\": %.9f", i == 0 ? "" : ", ", report.times[i].name.c_str(), report.times[i].seconds);
  std::fprintf(file, "}}\n");
  return std::fclose(file) == 0;
}

int Main(const char* json) {
  cudaDeviceProp properties;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("gpu_bench: there is no CUDA device here; nothing was measured\n");
    return 0;
  }
  Must(cudaGetDeviceProperties(&properties, 0), "device properties");
  auto driver = kernels::cuda::CreateCudaDriver(0);
  Must(driver.ok(), "the engine's driver");
  cudaStream_t stream;
  Must(cudaStreamCreate(&stream), "stream");
  Report report;
  const std::pair<DType, const char*> kinds[] = {{DType::kFloat32, "fp32"},
                                                 {DType::kBFloat16, "bf16"},
                                                 {DType::kFloat16, "fp16"},
                                                 {DType::kFloat8E4M3, "fp8_e4m3"},
                                                 {DType::kFloat8E5M2, "fp8_e5m2"}};
  for (const auto& [dtype, name] : kinds)
    for (size_t megabytes : {4, 16, 64, 256, 1024})
      MeasureBandwidth(driver.value().get(), dtype, name, megabytes, stream, &report);
  MeasureThousand(DType::kFloat32, "fp32", 15e-6, stream, &report);
  MeasureThousand(DType::kBFloat16, "bf16", 12e-6, stream, &report);
  MeasureHook(stream, &report);
  Print(report, properties.name);
  if (json != nullptr && !WriteJson(report, json)) {
    std::printf("gpu_bench: %s cannot be written\n", json);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace stepwatch::bench

int main(int argc, char** argv) {
  return stepwatch::bench::Main(argc == 3 && std::strcmp(argv[1], "--json") == 0 ? argv[2] : nullptr);
}
