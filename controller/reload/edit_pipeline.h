// The way of an edit on the loop: bytes, config, intent, plan. Independent of the running plan.
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

// Where on its way an edit was refused.
enum class RefusalReason : uint8_t {
  kSyntax,  // it is not JSON
  kValue,   // a key holds a value that it does not accept
  kLimit,   // it goes beyond a limit of the run
  kRank,    // another rank of the job cannot do it
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
  int64_t at_step = 0;                     // kRun: it is for this step; not later than the running one: the next
  plan::Sampling sampling;                 // that the plan is compiled with
  plan::CompiledPlan compiled;             // kRun
  std::shared_ptr<const SiteIndex> sites;  // kRun: those that it was compiled for
};

class EditPipeline {
 public:
  // The limits outlive the pipeline.
  EditPipeline(int rank, bool dynamic, const PlanLimits* limits) : rank_(rank), dynamic_(dynamic), limits_(limits) {}

  void SetSites(SiteIndex sites) { SetSites(std::make_shared<const SiteIndex>(std::move(sites))); }
  void SetSites(std::shared_ptr<const SiteIndex> sites) { sites_ = std::move(sites); }
  const SiteIndex& sites() const { return *sites_; }
  const std::shared_ptr<const SiteIndex>& shared_sites() const { return sites_; }

  // False if the text is not JSON: a program may still be writing it. Parse reuses the result for the same text.
  bool LooksWhole(const std::string& text);
  Edit Parse(const std::string& sha256, const std::string& text);
  // Determines the intent of the text, and compiles the plan if it asks for one; a limit of the run may refuse it.
  EditIntent Classify(Edit* edit, PlanId plan_id) const;
  // False: refused, with the reason in the edit.
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
  std::optional<ParsedText> parsed_;  // the text that LooksWhole was asked about last
};

}  // namespace stepwatch::reload
