// The path of an edit on the loop: bytes, config, intent, plan. Independent of the running plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "controller/reload/machine.h"
#include "controller/reload/plan_limits.h"
#include "src/config/config.h"
#include "src/plan/plan.h"
#include "stepwatch/site.h"
#include "stepwatch/status.h"

namespace stepwatch::reload {

// Stage at which an edit was refused.
enum class RefusalReason : uint8_t {
  kSyntax,  // it is not JSON
  kValue,   // a key holds a value that it does not accept
  kLimit,   // it exceeds a limit of the run
  kRank,    // another rank of the job cannot apply it
};
inline constexpr size_t kRefusalReasonCount = 4;

// A text of the config file, and the result of its parsing and compilation.
struct Edit {
  std::string sha256;
  std::string text;
  Result<config::ParsedConfig> parsed = Status();
  EditIntent intent = EditIntent::kRefused;
  Status refusal;                                      // kRefused
  RefusalReason refused_for = RefusalReason::kSyntax;  // kRefused
  int64_t at_step = 0;                                 // kRun: its first step; not later than the running one: the next
  plan::Sampling sampling;                             // with which the plan is compiled
  plan::CompiledPlan compiled;                         // kRun
  std::shared_ptr<const SiteIndex> sites;              // kRun: the sites for which it was compiled
};

class EditPipeline {
 public:
  // The limits must outlive the pipeline.
  EditPipeline(int rank, bool dynamic, const PlanLimits* limits) : rank_(rank), dynamic_(dynamic), limits_(limits) {}

  void SetSites(SiteIndex sites) { SetSites(std::make_shared<const SiteIndex>(std::move(sites))); }
  void SetSites(std::shared_ptr<const SiteIndex> sites) { sites_ = std::move(sites); }
  const SiteIndex& sites() const { return *sites_; }
  const std::shared_ptr<const SiteIndex>& shared_sites() const { return sites_; }

  // False if the text is not JSON: a program may still be writing it. Parse reuses the result for the same text.
  bool LooksWhole(const std::string& text);
  Edit Parse(const std::string& sha256, const std::string& text);
  // Determines the intent of the text, and compiles the plan if it requests one; a limit of the run may refuse it.
  EditIntent Classify(Edit* edit, PlanId plan_id) const;
  // False: refused; the edit has the reason.
  bool Compile(Edit* edit, PlanId plan_id) const;

 private:
  struct ParsedText {
    std::string text;
    Result<config::ParsedConfig> parsed;
  };

  const int rank_;
  const bool dynamic_;
  const PlanLimits* const limits_;
  std::shared_ptr<const SiteIndex> sites_ = std::make_shared<const SiteIndex>();
  std::optional<ParsedText> parsed_;  // the last text checked by LooksWhole
};

}  // namespace stepwatch::reload
