#include "src/offline/trend_scan.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_set>

namespace stepwatch::offline {
namespace {

void ReplaceAll(const std::string& from, const std::string& to, std::string* text) {
  if (from.empty()) return;
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at + to.size()))
    text->replace(at, from.size(), to);
}

bool IsNumber(std::string_view part) {
  return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

size_t TrendTargetHash::operator()(const TrendTarget& target) const {
  const size_t place = static_cast<size_t>(target.vpp_stage * 1000003 + target.micro_step);
  return std::hash<std::string>()(target.name) ^ (place * size_t{0x9e3779b97f4a7c15});
}

const std::vector<std::string>& TrendStats() {
  static const std::vector<std::string> stats = {
      "norm",        "min", "max",         "zeros", "nans",     "mean",  "entropy",
      "softmax_max", "sr",  "kernel_norm", "std_x", "jacobian", "proxy", "token_similarity"};
  return stats;
}

TrendTarget TrendRules::TargetOf(const MetricRow& row) const {
  TrendTarget target{std::string(row.name), row.vpp_stage, micro_step ? 0 : row.micro_step};
  for (const auto& [from, to] : mapping) ReplaceAll(from, to, &target.name);
  return target;
}

Result<TrendScan> ScanTrendFile(const TrendFile& trend_file, const TrendRules& rules, WorkState* state) {
  Result<MetricFile> opened = MetricFile::Open(trend_file.entry.path, TrendStats());
  if (!opened.ok()) return opened.status();
  MetricFile file = std::move(opened).value();
  TrendScan scan;
  std::unordered_set<TrendTarget, TrendTargetHash> seen;
  ReadMeter meter(state);
  MetricRow row;
  for (;;) {
    const Result<bool> got = file.Next(&row);
    if (!got.ok()) return got.status();
    if (!got.value()) break;
    const auto [target, is_new] = seen.insert(rules.TargetOf(row));
    if (is_new) scan.targets.push_back(*target);
    int64_t& last = scan.last_micro_step[row.step];
    last = std::max(last, row.micro_step);
    Status progress = meter.Row(file.bytes_read());
    if (!progress.ok()) return progress;
  }
  scan.rows = file.rows();
  scan.rows_skipped = file.rows_skipped();
  scan.note = file.Note();
  if (scan.rows > 0) scan.stats.insert(file.stats().begin(), file.stats().end());
  Status progress = meter.End(file.bytes_read());
  if (!progress.ok()) return progress;
  return scan;
}

std::unordered_map<int64_t, int64_t> FirstMicroSteps(const std::map<int64_t, int64_t>& last_micro_step,
                                                     int64_t* total) {
  std::unordered_map<int64_t, int64_t> first;
  *total = 0;
  for (const auto& [step, last] : last_micro_step) {
    first[step] = *total;
    *total += last + 1;
  }
  return first;
}

std::set<TrendTag> TagsOf(const std::string& target_name) {
  std::set<TrendTag> tags;
  std::string_view rest = target_name;
  std::string_view before;
  bool after_module = false;
  for (;;) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    const bool is_number = IsNumber(part);
    if (!is_number) tags.insert({std::string(part), "module"});
    if (is_number && after_module) tags.insert({std::string(before) + "." + std::string(part), "layer"});
    before = part;
    after_module = !is_number;
    if (part.size() == rest.size()) return tags;
    rest.remove_prefix(part.size() + 1);
  }
}

}  // namespace stepwatch::offline
