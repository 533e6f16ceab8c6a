// Reads the state of all GPUs through NVML. One device, or one value, that fails hides no other.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operations/gpu/gpu_sample.h"
#include "operations/gpu/nvml.h"

namespace stepwatch::operations {

// An opened library with its devices. The library is shut down when the last owner is gone.
struct GpuSession {
  struct Device {
    nvml::Device handle = nullptr;
    std::string uuid, name, pci;
  };

  std::shared_ptr<Nvml> nvml;
  std::string driver;
  std::vector<Device> devices;  // by their numbers; a handle is null for a device that was lost before
};

// Any call may block as NVML does. One thread at a time.
class GpuReader {
 public:
  // The library is opened again after this long while a GPU is lost: a reset may have brought it back.
  static constexpr double kLostSeconds = 60;
  // For this long a GPU that has vanished is reported as lost.
  static constexpr double kVanishedSeconds = 600;

  explicit GpuReader(std::string library = kNvmlLibrary) : library_(std::move(library)) {}

  // `now`: monotonic, in seconds. Begins anew after the driver was reloaded, or when the devices are no longer those of
  // the last call. Others must let go of an older session by then: for some calls it waits for them, with a sample that
  // has its trouble and no GPU.
  GpuSample Read(double now);
  // The session of the last sample; null: none.
  std::shared_ptr<const GpuSession> session() const { return session_; }

 private:
  // Two samples of the counters of busy multiprocessors.
  class BusyPair;
  struct Vanished {
    GpuReading reading;
    double until = 0;
  };

  Status Open(double now);
  void Close() {
    busy_.clear();
    session_.reset();
  }
  // Empty: the session is no longer valid.
  std::optional<std::vector<GpuReading>> ReadAll();
  // False: another device is in its place.
  bool ReadGpu(size_t index, std::vector<GpuReading>* readings);
  void ReadSlices(size_t index, unsigned count_max, std::vector<GpuReading>* readings);
  void ReadValues(nvml::Device device, GpuReading* reading) const;
  void ReadMemory(nvml::Device device, GpuReading* reading) const;
  void ReadLinks(nvml::Device device, GpuReading* reading) const;
  void ReadProcesses(nvml::Device device, GpuReading* reading) const;
  void ReadBusy(nvml::Device device, std::optional<unsigned> gpu_instance, GpuReading* reading);
  void NoteVanished(double now);

  const std::string library_;
  std::shared_ptr<const GpuSession> session_;
  std::weak_ptr<const GpuSession> closed_;  // the session before
  std::optional<double> awaited_since_;     // its other owners
  double opened_at_ = 0;
  std::vector<GpuReading> last_;              // GPUs of the last sample
  std::map<std::string, Vanished> vanished_;  // by UUID
  std::map<std::string, std::shared_ptr<BusyPair>> busy_;
};

}  // namespace stepwatch::operations
