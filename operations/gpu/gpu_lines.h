// Makes lines for the detectors from samples of GPUs. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operations/gpu/gpu_sample.h"
#include "operations/gpu/gpu_users.h"
#include "operations/vocabulary/line.h"

namespace stepwatch::operations {

class GpuLines {
 public:
  // An Xid is withdrawn after this long without another one of the GPU.
  static constexpr double kXidSeconds = 600;

  // One line for each changed value and each rank that uses the GPU; also for values that detectors count or watch.
  std::vector<Line> OnSample(const GpuSample& sample, const GpuUsers& users, double now);
  std::vector<Line> OnXid(const std::string& uuid, int64_t code, const GpuUsers& users, double now);

 private:
  using Key = std::pair<std::string, GpuUser>;  // UUID and rank
  struct Xid {
    double code = 0;
    double at = 0;
  };

  std::map<std::string, double> ValuesOf(const GpuReading& reading, double now);

  std::map<Key, std::map<std::string, double>> sent_;     // by field
  std::map<std::string, std::set<unsigned>> links_seen_;  // that have been up
  std::map<std::string, Xid> xids_;                       // the last of each GPU
};

}  // namespace stepwatch::operations
