// A library with the functions of NVML, for machines without a GPU.
//
// The file that FAKE_NVML names has a key and a number or word in each line, and is read at each call: "count 2",
// "uuid.0 GPU-a", "temperature.0 97", "power.0.status 3" (what the function returns), "block.power 1" (it does not
// return until the line is gone), "xid 79" (an event of GPU 0, once for each such line), "mig.0 2" (two slices, whose
// devices are 100 and 101; of GPU 1 they are 200 and 201). A number that the file lacks has the default below.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "operations/gpu/nvml_abi.h"

namespace {

namespace nvml = stepwatch::operations::nvml;
using nvml::Device;
using nvml::Return;
using ULong = unsigned long long;

struct Control {
  std::map<std::string, std::string> values;
  std::vector<unsigned> xids;
};

Control Read() {
  Control control;
  const char* path = std::getenv("FAKE_NVML");
  std::ifstream file(path == nullptr ? "" : path);
  std::string key, value;
  while (file >> key >> value) {
    if (key == "xid") control.xids.push_back(static_cast<unsigned>(std::stoul(value)));
    control.values[key] = value;
  }
  return control;
}

std::string KeyOf(const char* name, Device device) {
  return std::string(name) + "." + std::to_string(reinterpret_cast<uintptr_t>(device) - 1);
}

Device At(uintptr_t index) {
  return reinterpret_cast<Device>(index + 1);
}

ULong Number(const Control& control, const std::string& key, ULong otherwise) {
  const auto found = control.values.find(key);
  return found == control.values.end() ? otherwise : std::strtoull(found->second.c_str(), nullptr, 10);
}

void WaitWhileBlocked(const char* name) {
  while (Number(Read(), std::string("block.") + name, 0) != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

template <class Value>
Return Give(const char* name, Device device, ULong otherwise, Value* value) {
  WaitWhileBlocked(name);
  const Control control = Read();
  const std::string key = KeyOf(name, device);
  *value = static_cast<Value>(Number(control, key, otherwise));
  const ULong all = Number(control, KeyOf("status", device), nvml::kSuccess);  // as of a lost GPU
  return static_cast<Return>(Number(control, key + ".status", all));
}

Return GiveText(const char* name, Device device, const std::string& otherwise, char* text, unsigned size) {
  int unused = 0;
  const Return status = Give(name, device, 0, &unused);
  const Control control = Read();
  const auto found = control.values.find(KeyOf(name, device));
  std::snprintf(text, size, "%s", (found == control.values.end() ? otherwise : found->second).c_str());
  return status;
}

std::mutex mutex;
size_t xids_taken = 0;
std::string taken_from;  // the control file; another one belongs to another test

}  // namespace

extern "C" {

Return nvmlInit_v2() {
  return static_cast<Return>(Number(Read(), "init.status", nvml::kSuccess));
}
Return nvmlShutdown() {
  return nvml::kSuccess;
}
Return nvmlSystemGetDriverVersion(char* text, unsigned size) {
  const Control control = Read();
  const auto found = control.values.find("driver");
  std::snprintf(text, size, "%s", found == control.values.end() ? "550.1" : found->second.c_str());
  return nvml::kSuccess;
}
Return nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(Number(Read(), "count", 1));
  return static_cast<Return>(Number(Read(), "count.status", nvml::kSuccess));
}
Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  *device = At(index);
  int unused = 0;
  return Give("handle", *device, 0, &unused);
}
Return nvmlDeviceGetUUID(Device device, char* text, unsigned size) {
  return GiveText("uuid", device, KeyOf("GPU", device), text, size);
}
Return nvmlDeviceGetName(Device device, char* text, unsigned size) {
  return GiveText("name", device, "Fake", text, size);
}
Return nvmlDeviceGetPciInfo_v3(Device device, nvml::PciInfo* pci) {
  std::snprintf(pci->bus_id, sizeof(pci->bus_id), "00000000:%02X:00.0",
                static_cast<unsigned>(reinterpret_cast<uintptr_t>(device) + 0x3a));
  return nvml::kSuccess;
}
Return nvmlDeviceGetTemperature(Device device, unsigned, unsigned* celsius) {
  return Give("temperature", device, 50, celsius);
}
Return nvmlDeviceGetTemperatureThreshold(Device device, unsigned, unsigned* celsius) {
  return Give("slowdown", device, 90, celsius);
}
Return nvmlDeviceGetPowerUsage(Device device, unsigned* milliwatts) {
  return Give("power", device, 300'000, milliwatts);
}
Return nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned* milliwatts) {
  return Give("power_limit", device, 700'000, milliwatts);
}
Return nvmlDeviceGetTotalEnergyConsumption(Device device, ULong* millijoules) {
  return Give("energy", device, 5000, millijoules);
}
Return nvmlDeviceGetUtilizationRates(Device device, nvml::Utilization* utilization) {
  utilization->memory = 0;
  return Give("utilization", device, 80, &utilization->gpu);
}
Return nvmlDeviceGetMemoryInfo(Device device, nvml::Memory* memory) {
  memory->total = 80'000'000'000;
  return Give("memory", device, 10'000'000'000, &memory->used);
}
Return nvmlDeviceGetTotalEccErrors(Device device, unsigned type, unsigned, ULong* count) {
  return Give(type == nvml::kCorrected ? "ecc_corrected" : "ecc_uncorrected", device, 0, count);
}
Return nvmlDeviceGetRemappedRows(Device device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                                 unsigned* failure) {
  *corrected = *uncorrected = 0;
  (void)Give("row_remap_pending", device, 0, pending);
  return Give("row_remap_failure", device, 0, failure);
}
#ifdef FAKE_NVML_OLD
Return nvmlDeviceGetCurrentClocksThrottleReasons(Device device, ULong* reasons) {
  return Give("throttle", device, 0, reasons);
}
#else
Return nvmlDeviceGetCurrentClocksEventReasons(Device device, ULong* reasons) {
  return Give("throttle", device, 0, reasons);
}
Return nvmlGpmQueryDeviceSupport(Device device, nvml::GpmSupport* support) {
  return Give("gpm", device, support->version == nvml::kGpmVersion ? 1 : 0, &support->is_supported);
}
Return nvmlGpmSampleAlloc(nvml::GpmSample* sample) {
  *sample = new Device(nullptr);
  return nvml::kSuccess;
}
Return nvmlGpmSampleFree(nvml::GpmSample sample) {
  delete static_cast<Device*>(sample);
  return nvml::kSuccess;
}
Return nvmlGpmSampleGet(Device device, nvml::GpmSample sample) {
  *static_cast<Device*>(sample) = device;
  return nvml::kSuccess;
}
Return nvmlGpmMigSampleGet(Device, unsigned gpu_instance, nvml::GpmSample sample) {
  *static_cast<Device*>(sample) = At(gpu_instance);
  return nvml::kSuccess;
}
Return nvmlGpmMetricsGet(nvml::GpmMetrics* metrics) {
  metrics->metrics[0].status = nvml::kSuccess;
  return Give("sm_active", *static_cast<Device*>(metrics->second), 40, &metrics->metrics[0].value);
}
#endif
Return nvmlDeviceGetFieldValues(Device device, int, nvml::FieldValue* values) {
  values->type = 1;
  values->status = Give("memory_temperature", device, 60, &values->value.ui);
  return nvml::kSuccess;
}
Return nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned* is_active) {
  unsigned links = 0;
  if (const Return status = Give("links", device, 2, &links); status != nvml::kSuccess) return status;
  if (link >= links) return nvml::kInvalidArgument;
  return Give(("link" + std::to_string(link)).c_str(), device, 1, is_active);
}
Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, nvml::ProcessInfo* processes) {
  unsigned pid = 0;
  const Return status = Give("process", device, 0, &pid);
  if (*count > 0) processes[0] = {pid, 0, 0, 0};
  *count = pid == 0 ? 0 : 1;
  return status;
}
Return nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  unsigned slices = 0;
  const Return status = Give("mig", device, 0, &slices);
  *current = *pending = slices > 0 ? 1 : 0;
  return status;
}
Return nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned* count) {
  (void)Give("mig", device, 0, count);
  *count = *count == 0 ? 0 : 7;
  return nvml::kSuccess;
}
Return nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device* slice) {
  unsigned slices = 0;
  (void)Give("mig", device, 0, &slices);
  *slice = At(100 * reinterpret_cast<uintptr_t>(device) + index);
  return index < slices ? nvml::kSuccess : nvml::kNotFound;
}
Return nvmlDeviceGetGpuInstanceId(Device slice, unsigned* id) {
  *id = static_cast<unsigned>(reinterpret_cast<uintptr_t>(slice) - 1);
  return nvml::kSuccess;
}
Return nvmlEventSetCreate(nvml::EventSet* set) {
  *set = At(1000);
  return nvml::kSuccess;
}
Return nvmlEventSetFree(nvml::EventSet) {
  return nvml::kSuccess;
}
Return nvmlDeviceRegisterEvents(Device device, ULong, nvml::EventSet) {
  int unused = 0;
  return Give("events", device, 0, &unused);
}
Return nvmlEventSetWait_v2(nvml::EventSet, nvml::EventData* data, unsigned milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  do {
    WaitWhileBlocked("events");
    const Control control = Read();
    const std::lock_guard<std::mutex> lock(mutex);
    if (const char* path = std::getenv("FAKE_NVML"); path != nullptr && taken_from != path) {
      taken_from = path;
      xids_taken = 0;
    }
    if (control.xids.size() > xids_taken) {
      *data = {At(0), nvml::kXidEvent, control.xids[xids_taken++], 0, 0};
      return nvml::kSuccess;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } while (std::chrono::steady_clock::now() < end);
  return nvml::kTimeout;
}
}
