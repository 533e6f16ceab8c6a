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

// What is seen. Each kind has its own CSV files, except that kCommunication shares those of kMgDirection, and that
// kAdamUpdate and kAdamRatio have no rows but heat maps (HeatmapColumn).
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
  kAttention,      // L2 feature of an attention module: entropy and maxima of its scores
  kLinear,         // L2 feature of a module's weight: stable rank and spectral norm
  kRouterWeight,   // L2 feature of a mixture-of-experts router: similarity of its experts
  kRouterLogit,    // L2 feature of such a router: entropy of its choices
  kCommunication,  // the tensors of a communication operator, before or after it
  kAdamUpdate,     // Adam's update without the learning rate, from its state before the update
  kAdamRatio,      // the same without eps: first moment by the root of the second
};
inline constexpr int kSiteKindCount = 16;

// The file prefix: "actv", "grad_reduced", ... (kMgDirection: "other", kAttention: "attention_hook"). kCommunication,
// whose rows are in the files of "other", is "communication".
const char* SiteKindName(SiteKind kind);

// What PlannedSite::owner is an index into.
enum class SiteOwner : uint8_t {
  kModule,     // SiteIndex::modules
  kParameter,  // SiteIndex::parameters
  kOperator,   // SiteIndex::operators
};
SiteOwner OwnerOf(SiteKind kind);

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
  // What besides tensors of modules and parameters this front end can watch. A config that asks for more is accepted,
  // with a warning.
  std::vector<std::string> operators{};  // communication operators: "all_reduce", ...
  bool features = false;                 // it computes the L2 features of modules
  bool stacks = false;                   // it tells from where modules are called
  bool heatmaps = false;                 // it counts the elements of Adam's updates and ratios
  // For users who have selected modules that are not watchable: how to see their tensors. Ends a sentence.
  std::string unwatchable_advice{};
};

// A site whose module or parameter is no longer there: it is not hooked.
inline constexpr uint32_t kNoOwner = 0xffffffff;

// One site of a plan.
struct PlannedSite {
  SiteKind kind = SiteKind::kActv;
  Port port = Port::kNone;  // kCommunication: kInput before the operator, kOutput after it
  uint32_t owner = 0;       // see OwnerOf; or kNoOwner
  int chunk = 0;
  std::string name;  // the CSV name cell without element and call suffix: "fc.input", "fc.weight", "all_reduce.post"
};

// What a plan asks of a front end beside its sites. On a rank that module_ranks leaves out nothing is to be collected,
// but the run is to end where it ends on the others, which would otherwise wait for this one for ever.
struct FrontEndRequests {
  bool structure = false;             // print_struct: hand over the model's structure, once
  bool exit_after_structure = false;  // print_struct: then end the run; on every rank
  bool stacks = false;                // stack_info: hand over from where each module is called, once
  bool communication = false;         // cc_distribution: watch communication operators
  // Only say from where operators are called in one step, then end the run; on every rank.
  bool communication_log_only = false;
  // Calls from these places alone, as regular expressions searched in their stacks; empty: all calls.
  std::vector<std::string> communication_codeline{};
  bool batch_first_attention = false;  // inputs of attention are b,s,h,d; otherwise s,b,h,d
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
  std::vector<Stat> stats;                    // `ops` in column order, shape and dtype included; see ColumnsOf
  int ndigits = -1;                           // decimal places; -1: shortest text that reads back to the same double
  int64_t step_count_per_record = 1;          // steps in one file
  bool micro_step_in_grad_unreduced = false;  // monitor_mbs_grad
  OutputFormat format = OutputFormat::kCsv;
  bool plan_id_column = false;  // "stepwatch": {"columns": ["plan_id"]}
};

}  // namespace stepwatch
