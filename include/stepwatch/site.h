// Sites: the places of a model where tensors are seen, and which of them a plan watches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stepwatch/statistics.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch {

using PlanId = uint32_t;  // 1, 2, 3 ... for the life of a run; 0: no plan
using SiteId = uint32_t;  // position in RecordLayout::sites of the plan that asked

// What is seen; each kind has its own CSV files.
enum class SiteKind : uint8_t {
  kActv,           // a module's input or output in the forward pass
  kActvGrad,       // the gradient of such an input or output
  kGradUnreduced,  // a parameter's gradient before any reduction
  kGradReduced,    // a parameter's gradient as the optimizer's step finds it
  kParamOrigin,    // a parameter before the update
  kParamUpdated,   // a parameter after the update
  kExpAvg,         // Adam's first moment, before the update
  kExpAvgSq,       // Adam's second moment, before the update
  kMgDirection,    // agreement of the signs of gradient and first moment, before the update
};
inline constexpr int kSiteKindCount = 9;

// The file prefix: "actv", "grad_reduced", ... (kMgDirection: "other").
const char* SiteKindName(SiteKind kind);

enum class Port : uint8_t { kNone, kInput, kOutput };

// Everything of one model that could be watched. A front end builds it once at attach (and anew when the model grows);
// names are unique within `modules` and within `parameters` of one chunk.
struct ModuleEntry {
  int chunk = 0;          // virtual pipeline chunk, the CSV column vpp_stage
  std::string name;       // as the framework gives it; "" is the root
  std::string type;       // for people: "Linear"
  bool watchable = true;  // false: this front end cannot hook it
};

struct ParameterEntry {
  int chunk = 0;
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  bool requires_grad = true;
};

struct SiteIndex {
  std::vector<ModuleEntry> modules;
  std::vector<ParameterEntry> parameters;
};

// One site of a plan.
struct PlannedSite {
  SiteKind kind = SiteKind::kActv;
  Port port = Port::kNone;
  uint32_t owner = 0;  // index into SiteIndex::modules (kActv, kActvGrad) or SiteIndex::parameters
  int chunk = 0;
  std::string name;  // the CSV name cell without element and call suffix: "fc.input", "fc.weight"
};

// Where the rows of one plan go: the config's `format`.
enum class OutputFormat : uint8_t {
  kCsv,
  kTensorBoard,
  kApi,  // nowhere: there is Monitor::Latest, and there are alarms
};

// How the records of one plan become rows. Immutable, shared by the step thread, the drain and the sinks.
struct RecordLayout {
  PlanId plan_id = 0;
  std::vector<PlannedSite> sites;
  std::vector<Stat> stats;                    // `ops` in column order, shape and dtype included
  int ndigits = -1;                           // decimal places; -1: shortest text that reads back to the same double
  int64_t step_count_per_record = 1;          // steps in one file
  bool micro_step_in_grad_unreduced = false;  // monitor_mbs_grad
  OutputFormat format = OutputFormat::kCsv;
  bool plan_id_column = false;                // "stepwatch": {"columns": ["plan_id"]}
};

}  // namespace stepwatch
