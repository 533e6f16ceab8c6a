// Sites: the places of a model where tensors are observed, all of them and those that a plan watches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stepwatch/site_kind.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch {

using SiteId = uint32_t;  // position in RecordLayout::sites of one plan

// Modules and parameters of one model that could be watched. A front end lists them at attach, and again when the model
// grows; names are unique within `modules` and within `parameters` of one chunk.
struct ModuleEntry {
  int chunk = 0;          // virtual pipeline chunk, the CSV column vpp_stage
  std::string name;       // the name in the framework; "" is the root
  std::string type;       // for people: "Linear"
  bool watchable = true;  // false: this front end cannot hook it
  // The name in the user's code, without the framework's wrappers around modules; unset: same as `name`.
  std::optional<std::string> as_written{};
};

struct ParameterEntry {
  int chunk = 0;
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  bool requires_grad = true;
  std::optional<std::string> as_written{};  // as in ModuleEntry
};

struct SiteIndex {
  std::vector<ModuleEntry> modules;
  std::vector<ParameterEntry> parameters;
  // Other things that this front end can watch. A config that needs more is accepted with a warning.
  std::vector<std::string> operators{};  // communication operators: "all_reduce", ...
  bool features = false;                 // computes the L2 features of modules
  bool stacks = false;                   // reports the call stacks of modules
  bool heatmaps = false;                 // counts the elements of Adam's updates and ratios
  // Advice for users who selected modules that are not watchable: how to see their tensors. Ends a sentence.
  std::string unwatchable_advice{};
};

enum class Port : uint8_t { kNone, kInput, kOutput };

// Owner of a site whose module or parameter no longer exists: the site is not hooked.
inline constexpr uint32_t kNoOwner = 0xffffffff;

// One site of a plan.
struct PlannedSite {
  SiteKind kind = SiteKind::kActv;
  Port port = Port::kNone;  // kCommunication: kInput before the operator, kOutput after it
  uint32_t owner = 0;       // index, see OwnerOf; or kNoOwner
  int chunk = 0;
  std::string name;   // the CSV name cell without element and call suffix: "fc.input", "fc.weight", "all_reduce.post"
  uint8_t group = 0;  // RecordLayout::groups, counted from 1; 0: no group
};

}  // namespace stepwatch
