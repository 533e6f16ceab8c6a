// The ranks that compute on each GPU. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "operations/gpu/gpu_sample.h"
#include "operations/vocabulary/known_process.h"

namespace stepwatch::operations {

struct GpuUser {
  std::string run;
  int64_t rank = 0;

  auto operator<=>(const GpuUser&) const = default;
};

// A rank is a user of its GPU for a minute longer than its process: a fault is often reported after it has ended the
// process.
class GpuUsers {
 public:
  static constexpr double kPastSeconds = 60;

  void Take(const GpuSample& sample, const std::vector<KnownProcess>& processes, double now);
  // The users of the GPU, or of the slice, with this UUID.
  std::set<GpuUser> Of(const std::string& uuid) const;
  // The users of the GPU and its slices. If no process of a run is seen on any GPU, as from within a container, and
  // others use this one: each run of the host, without a rank (-1).
  std::set<GpuUser> OfWhole(const std::string& uuid) const;

 private:
  std::map<std::string, std::map<GpuUser, double>> users_;  // by UUID: when it was seen last
  std::map<std::string, std::string> parents_;              // of slices
  std::map<std::string, double> in_use_;                    // GPUs: when somebody was seen to use it last
  std::set<std::string> runs_;
};

}  // namespace stepwatch::operations
