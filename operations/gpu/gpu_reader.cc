#include "operations/gpu/gpu_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

using nvml::Return;

constexpr unsigned kGpusMax = 64, kSlicesMax = 32, kProcessesMax = 1024;
constexpr double kAwaitedSeconds = 20;
constexpr double kCelsiusMax = 200, kWattsMax = 100'000, kJoulesMax = 1e15, kBytesMax = 1e15, kCountMax = 1e15;

bool IsUnsupported(Return status) {
  return status == nvml::kNotSupported || status == nvml::kFunctionNotFound || status == nvml::kNoPermission ||
         status == nvml::kArgumentVersionMismatch || status == nvml::kInvalidArgument || status == nvml::kDeprecated;
}

bool IsLost(Return status) {
  return status == nvml::kGpuIsLost || status == nvml::kResetRequired;
}

// The driver was reloaded or replaced.
bool IsOver(Return status) {
  return status == nvml::kUninitialized || status == nvml::kDriverNotLoaded || status == nvml::kVersionMismatch;
}

// Numbers at the end of a type's range stand for values that are not available; so does a value beyond what is
// possible.
template <class Number>
std::optional<double> Plausible(Number number, double factor, double value_max) {
  constexpr Number kBlanks = 16;  // DCGM and NVML use the last few
  constexpr auto kMax = std::numeric_limits<Number>::max();
  constexpr auto kSignedMax = static_cast<Number>(std::numeric_limits<std::make_signed_t<Number>>::max());
  const bool is_blank = number >= kMax - kBlanks || (number <= kSignedMax && number >= kSignedMax - kBlanks);
  const double value = static_cast<double>(number) * factor;
  if (is_blank || value > value_max) return std::nullopt;
  return value;
}

void Set(GpuField field, Return status, std::optional<double> value, GpuReading* reading) {
  const auto at = static_cast<size_t>(field);
  if (IsLost(status)) reading->is_lost = true;
  if (IsUnsupported(status)) reading->supported[at] = false;
  if (status != nvml::kSuccess || !value) return;
  reading->supported[at] = true;
  reading->values[at] = value;
}

// Reads a number by one function with an output parameter.
template <class Number, class Function, class... Arguments>
void Take(GpuField field, double factor, double value_max, GpuReading* reading, Function function,
          Arguments... arguments) {
  if (reading->is_lost) return;
  Number number = 0;
  const Return status = Nvml::Call(function, arguments..., &number);
  Set(field, status, Plausible(number, factor, value_max), reading);
}

template <size_t size, class Function, class... Arguments>
Return TakeText(std::string* text, Function function, Arguments... arguments) {
  std::array<char, size> bytes{};
  const Return status = Nvml::Call(function, arguments..., bytes.data(), static_cast<unsigned>(size));
  bytes.back() = 0;
  if (status == nvml::kSuccess) *text = base::Printable(bytes.data(), size);
  return status;
}

std::optional<double> NumberOf(const nvml::FieldValue& field) {
  switch (field.type) {
    case 0: return std::isfinite(field.value.d) ? std::optional(field.value.d) : std::nullopt;
    case 1: return Plausible(field.value.ui, 1, kCelsiusMax);
    case 2: return Plausible(field.value.ul, 1, kCelsiusMax);
    case 3: return Plausible(field.value.ull, 1, kCelsiusMax);
    default: return std::nullopt;
  }
}

}  // namespace

class GpuReader::BusyPair {
 public:
  explicit BusyPair(std::shared_ptr<Nvml> nvml) : nvml_(std::move(nvml)) {
    for (nvml::GpmSample& sample : samples_) (void)Nvml::Call(nvml_->functions().gpm_alloc, &sample);
  }
  ~BusyPair() {
    for (const nvml::GpmSample sample : samples_)
      if (sample != nullptr) (void)Nvml::Call(nvml_->functions().gpm_free, sample);
  }
  BusyPair(const BusyPair&) = delete;
  BusyPair& operator=(const BusyPair&) = delete;

  void Read(nvml::Device device, std::optional<unsigned> gpu_instance, GpuReading* reading) {
    if (samples_[0] == nullptr || samples_[1] == nullptr) return;
    std::swap(samples_[0], samples_[1]);
    const nvml::Functions& f = nvml_->functions();
    const Return taken = gpu_instance ? Nvml::Call(f.gpm_mig_get, device, *gpu_instance, samples_[1])
                                      : Nvml::Call(f.gpm_get, device, samples_[1]);
    const bool had_one = std::exchange(has_one_, taken == nvml::kSuccess);
    if (taken != nvml::kSuccess) return Set(GpuField::kSmActive, taken, std::nullopt, reading);
    if (!had_one) return;
    metrics_ = {};
    metrics_.version = nvml::kGpmVersion;
    metrics_.count = 1;
    metrics_.first = samples_[0];
    metrics_.second = samples_[1];
    metrics_.metrics[0].id = nvml::kGpmSmUtilization;
    Return status = Nvml::Call(f.gpm_metrics, &metrics_);
    if (status == nvml::kSuccess) status = metrics_.metrics[0].status;
    const double percent = metrics_.metrics[0].value;
    const bool is_usable = percent >= 0 && percent <= 100;  // false for NaN
    Set(GpuField::kSmActive, status, is_usable ? std::optional(percent / 100) : std::nullopt, reading);
  }

 private:
  const std::shared_ptr<Nvml> nvml_;
  std::array<nvml::GpmSample, 2> samples_ = {};
  bool has_one_ = false;
  nvml::GpmMetrics metrics_ = {};
};

GpuSample GpuReader::Read(double now) {
  GpuSample sample;
  const auto has_lost = [&] {
    return std::any_of(last_.begin(), last_.end(), [](const auto& reading) { return reading.is_lost; });
  };
  if (session_ && has_lost() && now - opened_at_ >= kLostSeconds) Close();
  // Devices that change while they are read: once more, and then in the next call.
  for (int i = 0; i < 2; ++i) {
    if (!session_)
      if (const Status opened = Open(now); !opened.ok()) {
        sample.trouble = opened.message();
        sample.has_library = opened.code() != StatusCode::kNotFound;
        return sample;
      }
    std::optional<std::vector<GpuReading>> readings = ReadAll();
    if (readings) {
      sample.driver = session_->driver;
      sample.has_library = true;
      std::erase_if(*readings, [](const GpuReading& reading) { return reading.uuid.empty(); });
      sample.gpus = std::move(*readings);
      std::erase_if(vanished_, [&](const auto& each) {
        return each.second.until < now || std::any_of(sample.gpus.begin(), sample.gpus.end(),
                                                      [&](const auto& gpu) { return gpu.uuid == each.first; });
      });
      last_ = sample.gpus;
      for (const auto& [uuid, vanished] : vanished_) sample.gpus.push_back(vanished.reading);
      return sample;
    }
    Close();
  }
  sample.trouble = "the devices change";
  sample.has_library = true;
  return sample;
}

Status GpuReader::Open(double now) {
  // The library begins anew only after its last owner has shut it down. An owner that hangs is not waited for.
  if (!closed_.expired()) {
    if (!awaited_since_) awaited_since_ = now;
    if (now - *awaited_since_ < kAwaitedSeconds)
      return Status(StatusCode::kUnavailable, "NVML is still in use by another thread");
  }
  awaited_since_.reset();
  Result<std::shared_ptr<Nvml>> opened = Nvml::Open(library_);
  if (!opened.ok()) return opened.status();
  const auto session = std::make_shared<GpuSession>();
  session->nvml = std::move(opened).value();
  const nvml::Functions& f = session->nvml->functions();
  (void)TakeText<nvml::kDriverBytes>(&session->driver, f.driver_version);
  unsigned count = 0;
  if (const Return status = Nvml::Call(f.device_count, &count); status != nvml::kSuccess)
    return Status(StatusCode::kUnavailable, fmt::format("nvmlDeviceGetCount_v2 returned {}", status));
  for (unsigned i = 0; i < std::min(count, kGpusMax); ++i) {
    GpuSession::Device device;
    if (Nvml::Call(f.device_at, i, &device.handle) != nvml::kSuccess) device.handle = nullptr;
    if (device.handle != nullptr) {
      (void)TakeText<nvml::kUuidBytes>(&device.uuid, f.uuid, device.handle);
      (void)TakeText<nvml::kNameBytes>(&device.name, f.name, device.handle);
      nvml::PciInfo pci{};
      if (Nvml::Call(f.pci, device.handle, &pci) == nvml::kSuccess) {
        pci.bus_id[sizeof(pci.bus_id) - 1] = 0;
        device.pci = PciAddress(pci.bus_id);
      }
    }
    // A GPU that is lost keeps the identity that it had at this number.
    for (const GpuReading& before : last_)
      if (device.uuid.empty() && before.parent.empty() && before.gpu == std::to_string(i)) {
        device.uuid = before.uuid;
        device.name = before.name;
        device.pci = before.pci;
      }
    session->devices.push_back(std::move(device));
  }
  session_ = session;
  closed_ = session;
  opened_at_ = now;
  NoteVanished(now);
  return Status();
}

void GpuReader::NoteVanished(double now) {
  const auto is_whole = [](const GpuReading& reading) { return reading.parent.empty(); };
  const auto count = static_cast<size_t>(std::count_if(last_.begin(), last_.end(), is_whole));
  // As many as before: others stand in their place.
  if (session_->devices.size() >= count) return;
  for (GpuReading& reading : last_) {
    const auto has_uuid = [&](const GpuSession::Device& device) { return device.uuid == reading.uuid; };
    if (!is_whole(reading) || std::any_of(session_->devices.begin(), session_->devices.end(), has_uuid)) continue;
    GpuReading lost;
    lost.uuid = reading.uuid;
    lost.gpu = reading.gpu;
    lost.name = reading.name;
    lost.pci = reading.pci;
    lost.is_lost = true;
    vanished_[lost.uuid] = {lost, now + kVanishedSeconds};
  }
}

std::optional<std::vector<GpuReading>> GpuReader::ReadAll() {
  unsigned count = 0;
  const Return status = Nvml::Call(session_->nvml->functions().device_count, &count);
  if (status != nvml::kSuccess || std::min(count, kGpusMax) != session_->devices.size()) return std::nullopt;
  std::vector<GpuReading> readings;
  for (size_t i = 0; i < session_->devices.size(); ++i)
    if (!ReadGpu(i, &readings)) return std::nullopt;
  return readings;
}

bool GpuReader::ReadGpu(size_t index, std::vector<GpuReading>* readings) {
  const GpuSession::Device& device = session_->devices[index];
  const nvml::Functions& f = session_->nvml->functions();
  GpuReading reading;
  reading.uuid = device.uuid;
  reading.gpu = std::to_string(index);
  reading.name = device.name;
  reading.pci = device.pci;
  std::string uuid;
  const Return named =
      device.handle == nullptr ? nvml::kGpuIsLost : TakeText<nvml::kUuidBytes>(&uuid, f.uuid, device.handle);
  if (IsOver(named) || (named == nvml::kSuccess && uuid != device.uuid)) return false;
  reading.is_lost = IsLost(named);
  unsigned current = 0, pending = 0, slices = 0;
  if (!reading.is_lost) {
    const bool is_sliced = Nvml::Call(f.mig_mode, device.handle, &current, &pending) == nvml::kSuccess && current == 1;
    if (is_sliced) (void)Nvml::Call(f.mig_count_max, device.handle, &slices);
    ReadValues(device.handle, &reading);
    // The load of a GPU with slices is not defined; some drivers return 0.
    if (is_sliced)
      for (const GpuField field : {GpuField::kUtilization, GpuField::kSmActive}) {
        reading.values[static_cast<size_t>(field)].reset();
        reading.supported[static_cast<size_t>(field)] = false;
      }
    else
      ReadBusy(device.handle, std::nullopt, &reading);
    if (!is_sliced) ReadProcesses(device.handle, &reading);
  }
  readings->push_back(std::move(reading));
  ReadSlices(index, std::min(slices, kSlicesMax), readings);
  return true;
}

void GpuReader::ReadSlices(size_t index, unsigned count_max, std::vector<GpuReading>* readings) {
  const GpuSession::Device& device = session_->devices[index];
  const nvml::Functions& f = session_->nvml->functions();
  for (unsigned i = 0; i < count_max; ++i) {
    nvml::Device slice = nullptr;
    if (Nvml::Call(f.mig_at, device.handle, i, &slice) != nvml::kSuccess || slice == nullptr) continue;
    GpuReading reading;
    reading.gpu = fmt::format("{}:{}", index, i);
    reading.parent = device.uuid;
    reading.name = device.name;
    reading.pci = device.pci;
    (void)TakeText<nvml::kNameBytes>(&reading.name, f.name, slice);
    if (TakeText<nvml::kUuidBytes>(&reading.uuid, f.uuid, slice) != nvml::kSuccess) continue;
    ReadMemory(slice, &reading);
    reading.supported[static_cast<size_t>(GpuField::kUtilization)] = false;
    unsigned gpu_instance = 0;
    if (Nvml::Call(f.gpu_instance, slice, &gpu_instance) == nvml::kSuccess)
      ReadBusy(device.handle, gpu_instance, &reading);
    ReadProcesses(slice, &reading);
    readings->push_back(std::move(reading));
  }
}

void GpuReader::ReadMemory(nvml::Device device, GpuReading* reading) const {
  if (reading->is_lost) return;
  nvml::Memory memory{};
  const Return status = Nvml::Call(session_->nvml->functions().memory, device, &memory);
  Set(GpuField::kMemoryUsed, status, Plausible(memory.used, 1, kBytesMax), reading);
  Set(GpuField::kMemoryTotal, status, Plausible(memory.total, 1, kBytesMax), reading);
}

void GpuReader::ReadValues(nvml::Device device, GpuReading* reading) const {
  const nvml::Functions& f = session_->nvml->functions();
  using ULong = unsigned long long;
  Take<unsigned>(GpuField::kTemperature, 1, kCelsiusMax, reading, f.temperature, device, nvml::kCoreSensor);
  Take<unsigned>(GpuField::kSlowdownTemperature, 1, kCelsiusMax, reading, f.temperature_threshold, device,
                 nvml::kSlowdownThreshold);
  Take<unsigned>(GpuField::kPower, 1e-3, kWattsMax, reading, f.power, device);
  Take<unsigned>(GpuField::kPowerLimit, 1e-3, kWattsMax, reading, f.power_limit, device);
  Take<ULong>(GpuField::kEnergy, 1e-3, kJoulesMax, reading, f.energy, device);
  Take<ULong>(GpuField::kEccCorrected, 1, kCountMax, reading, f.ecc_errors, device, nvml::kCorrected,
              nvml::kSinceDriverLoad);
  Take<ULong>(GpuField::kEccUncorrected, 1, kCountMax, reading, f.ecc_errors, device, nvml::kUncorrected,
              nvml::kSinceDriverLoad);
  Take<ULong>(GpuField::kThrottle, 1, kCountMax, reading, f.clock_reasons, device);
  if (reading->is_lost) return;
  nvml::FieldValue memory_temperature{};
  memory_temperature.field = nvml::kFieldMemoryTemperature;
  Return status = Nvml::Call(f.field_values, device, 1, &memory_temperature);
  if (status == nvml::kSuccess) status = memory_temperature.status;
  // Without a sensor some drivers return 0.
  const std::optional<double> celsius = NumberOf(memory_temperature);
  Set(GpuField::kMemoryTemperature, status, celsius == 0 ? std::nullopt : celsius, reading);
  if (reading->is_lost) return;
  nvml::Utilization utilization{};
  status = Nvml::Call(f.utilization, device, &utilization);
  Set(GpuField::kUtilization, status, Plausible(utilization.gpu, 0.01, 1), reading);
  ReadMemory(device, reading);
  if (reading->is_lost) return;
  unsigned corrected = 0, uncorrected = 0, pending = 0, failure = 0;
  status = Nvml::Call(f.remapped_rows, device, &corrected, &uncorrected, &pending, &failure);
  Set(GpuField::kRowRemapPending, status, pending != 0, reading);
  Set(GpuField::kRowRemapFailure, status, failure != 0, reading);
  ReadLinks(device, reading);
}

void GpuReader::ReadLinks(nvml::Device device, GpuReading* reading) const {
  const nvml::Functions& f = session_->nvml->functions();
  Return last = nvml::kNotSupported;
  for (unsigned link = 0; link < nvml::kLinksMax && !reading->is_lost; ++link) {
    unsigned is_active = 0;
    last = Nvml::Call(f.link_state, device, link, &is_active);
    if (last == nvml::kSuccess && is_active <= 1) reading->links[link] = is_active == 1;
    reading->is_lost = IsLost(last);
    if (last == nvml::kFunctionNotFound || last == nvml::kInvalidArgument) break;  // there are no more
  }
  const auto at = static_cast<size_t>(GpuField::kLinks);
  if (!reading->links.empty())
    reading->supported[at] = true;
  else if (IsUnsupported(last))
    reading->supported[at] = false;
}

void GpuReader::ReadProcesses(nvml::Device device, GpuReading* reading) const {
  if (reading->is_lost) return;
  std::vector<nvml::ProcessInfo> processes(kProcessesMax);
  unsigned count = kProcessesMax;
  const Return status = Nvml::Call(session_->nvml->functions().processes, device, &count, processes.data());
  reading->is_lost = IsLost(status);
  if (status != nvml::kSuccess) return;
  for (unsigned i = 0; i < std::min(count, kProcessesMax); ++i)
    reading->processes.push_back(static_cast<int>(processes[i].pid));
}

void GpuReader::ReadBusy(nvml::Device device, std::optional<unsigned> gpu_instance, GpuReading* reading) {
  if (reading->is_lost) return;
  nvml::GpmSupport support{nvml::kGpmVersion, 0};
  Return status = Nvml::Call(session_->nvml->functions().gpm_support, device, &support);
  if (status == nvml::kSuccess && support.is_supported == 0) status = nvml::kNotSupported;
  if (status != nvml::kSuccess) return Set(GpuField::kSmActive, status, std::nullopt, reading);
  std::shared_ptr<BusyPair>& pair = busy_[reading->uuid];
  if (!pair) pair = std::make_shared<BusyPair>(session_->nvml);
  pair->Read(device, gpu_instance, reading);
}

}  // namespace stepwatch::operations
