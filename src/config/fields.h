// The rules of all keys, grouped by topic. schemas/config.schema.json and the tables of docs/use/config.md are
// generated from their texts (describe.h).
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/config/config.h"
#include "src/config/field.h"

namespace stepwatch::config {

std::span<const KeyRule<Config>> SelectionFields();  // what is collected
std::span<const KeyRule<Config>> WindowFields();     // when
std::span<const KeyRule<Config>> OutputFields();     // statistics, and their files
std::span<const KeyRule<Config>> AlertFields();
std::span<const KeyRule<Config>> FeatureFields();  // communication, L2 features, update ratios
std::span<const KeyRule<Config>> ObjectFields();   // "stepwatch", and undescribed keys

// The keys inside objects.
std::span<const KeyRule<Alert>> InsideAlert();
std::span<const KeyRule<CcDistribution>> InsideCcDistribution();
std::span<const KeyRule<OwnOptions>> InsideStepwatch();
std::span<const KeyRule<SiteGroup>> InsideSites();
std::span<const KeyRule<Budget>> InsideBudget();

// The words of `kinds`: kinds of tensors by the names of their files, and the fields that stand for several.
struct KindWord {
  const char* word;
  std::array<SiteKind, 2> kinds;
};
inline constexpr KindWord kKindWords[] = {
    {"actv", {SiteKind::kActv, SiteKind::kActv}},
    {"actv_grad", {SiteKind::kActvGrad, SiteKind::kActvGrad}},
    {"grad_unreduced", {SiteKind::kGradUnreduced, SiteKind::kGradUnreduced}},
    {"grad_reduced", {SiteKind::kGradReduced, SiteKind::kGradReduced}},
    {"param_origin", {SiteKind::kParamOrigin, SiteKind::kParamOrigin}},
    {"param_updated", {SiteKind::kParamUpdated, SiteKind::kParamUpdated}},
    {"exp_avg", {SiteKind::kExpAvg, SiteKind::kExpAvg}},
    {"exp_avg_sq", {SiteKind::kExpAvgSq, SiteKind::kExpAvgSq}},
    {"mg_direction", {SiteKind::kMgDirection, SiteKind::kMgDirection}},
    {"xy_distribution", {SiteKind::kActv, SiteKind::kActvGrad}},
    {"wg_distribution", {SiteKind::kGradUnreduced, SiteKind::kGradReduced}},
    {"param_distribution", {SiteKind::kParamOrigin, SiteKind::kParamUpdated}},
    {"mv_distribution", {SiteKind::kExpAvg, SiteKind::kExpAvgSq}},
};

Status ReadSites(const Field& field, Notes& notes, OwnOptions& own);
Status ReadBudget(const Field& field, Notes& notes, OwnOptions& own);

// The names that `ops` accepts.
std::vector<std::string_view> StatNames();

// The reason that an element of `ops` is left out: the accepted values, and the consequence.
struct OpLeftOut {
  std::string accepted;
  std::string instead;
};
// Appends a name to `ops` unless it is unknown or already present.
std::optional<OpLeftOut> TakeOp(std::string_view name_untrusted, bool names_nearest, std::vector<Stat>& ops);
// Normalises `ops`: `norm` if empty, shape and dtype last unless they were placed.
void CompleteOps(std::vector<Stat>& ops);

// Normalises `all_xy`: without targets every module is selected.
void CompleteSelection(Config& config);

}  // namespace stepwatch::config
