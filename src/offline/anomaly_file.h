// Alarms of a run, read from its anomaly.json files, and their order.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "src/base/file_system.h"
#include "src/json/json.h"
#include "stepwatch/status.h"

namespace stepwatch::offline {

// Stage of a training step; kUnknown sorts first.
enum class TrainStage { kUnknown = -1, kForward = 0, kBackward = 1, kOptimizer = 2 };

// Derived from the last part of a tag: "0:fc.input:0/rank0/actv" is forward.
TrainStage StageOf(const std::string& tag);

struct Anomaly {
  std::string key;  // its key in the file
  Json entry;       // complete, including unknown members
  int64_t rank = 0;
  int64_t step = 0;
  int64_t micro_step = 0;
  int64_t pp_stage = 0;
  int64_t vpp_stage = 0;
  int64_t call_id = -1;
  std::string tag;
  std::string message;

  // Ascending: forward goes through the chunks and pipeline stages upwards, the later stages downwards.
  std::tuple<int64_t, int64_t, int, int64_t, int64_t, int64_t> OrderKey() const;
};

// All alarms of {directory}/rank*/anomaly.json, ranks ascending, each file in its own order.
Result<std::vector<Anomaly>> ReadAnomalies(const std::string& directory,
                                           base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::offline
