#include "src/config/amend.h"

#include <optional>

#include "src/base/text.h"
#include "src/config/field.h"
#include "src/config/fields.h"

namespace stepwatch::config {

std::vector<Stat> OpsFromNames(const std::vector<std::string>& names_untrusted, std::vector<Warning>* warnings) {
  constexpr size_t kShownBytes = 40;
  std::vector<Stat> ops;
  for (const std::string& name : names_untrusted) {
    const bool takes_more = warnings->size() < Notes::kWarningsMax;
    const std::optional<OpLeftOut> left_out = TakeOp(name, takes_more, ops);
    if (left_out && takes_more)
      warnings->push_back({Warning::Kind::kReplaced,
                           {"ops", 0, 0},
                           "found \"" + base::Printable(name, kShownBytes) + "\"; accepted: " + left_out->accepted +
                               "; " + left_out->instead});
  }
  if (ops.empty() && !names_untrusted.empty())
    warnings->push_back(
        {Warning::Kind::kReplaced, {"ops", 0, 0}, "found a list without a usable statistic; \"norm\" is used"});
  CompleteOps(ops);
  return ops;
}

void SetXyDistribution(bool wanted, Config* config) {
  config->xy_distribution = wanted;
  CompleteSelection(*config);
}

}  // namespace stepwatch::config
