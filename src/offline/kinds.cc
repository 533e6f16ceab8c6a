#include "src/offline/kinds.h"

#include <algorithm>

#include "src/base/text.h"

namespace stepwatch::offline {

const std::vector<std::string>& MainKinds() {
  static const std::vector<std::string> kinds = {"actv",           "actv_grad",    "exp_avg",      "exp_avg_sq",
                                                 "grad_unreduced", "grad_reduced", "param_origin", "param_updated"};
  return kinds;
}

const std::vector<std::string>& FeatureKinds() {
  static const std::vector<std::string> kinds = {"attention_hook", "linear_hook", "moe_router_weight_hook",
                                                 "moe_router_logit_hook"};
  return kinds;
}

Result<std::vector<std::string>> ChooseKinds(const std::vector<std::string>& chosen,
                                             const std::vector<std::string>& known) {
  if (chosen.empty()) return known;
  std::vector<std::string> kinds;
  for (const std::string& kind : chosen) {
    if (std::find(known.begin(), known.end(), kind) == known.end()) {
      std::string list;
      for (const std::string& name : known) list += (list.empty() ? "'" : ", '") + name + "'";
      return Status(StatusCode::kInvalid,
                    "data type(" + base::Printable(kind) + ") is not supported, supported data type: [" + list + "]");
    }
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  return kinds;
}

}  // namespace stepwatch::offline
