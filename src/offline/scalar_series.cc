#include "src/offline/scalar_series.h"

#include <algorithm>
#include <tuple>

#include "src/base/text.h"

namespace stepwatch::offline {

std::string TagOf(const MetricRow& row, bool with_micro_step) {
  std::string tag = "vp" + std::to_string(row.vpp_stage) + ":";
  tag += row.name;
  if (with_micro_step) tag += ":micro" + std::to_string(row.micro_step);
  return tag;
}

Status ScalarSeries::Add(const MetricFileEntry& entry, MetricFile* file, WorkState* state) {
  const auto file_number = static_cast<uint32_t>(files_.size());
  files_.push_back({entry.path, file->stats()});
  ReadMeter meter(state);
  MetricRow row;
  for (;;) {
    const Result<bool> got = file->Next(&row);
    if (!got.ok()) return got.status();
    if (!got.value()) return meter.End(file->bytes_read());
    if (row.step < entry.name.first_step || row.step > entry.name.last_step)
      return Status(StatusCode::kInvalid, entry.path + ", line " + std::to_string(file->line()) + ": step " +
                                              std::to_string(row.step) + " is outside the steps of the file, " +
                                              std::to_string(entry.name.first_step) + " to " +
                                              std::to_string(entry.name.last_step));
    const auto [tag, is_new] =
        tag_numbers_.try_emplace(TagOf(row, file->has_micro_step()), static_cast<uint32_t>(tags_.size()));
    if (is_new) tags_.push_back(tag->first);
    rows_.push_back({row.step, tag->second, file_number, values_.size(), file->line()});
    values_.insert(values_.end(), row.values.begin(), row.values.end());
    Status progress = meter.Row(file->bytes_read());
    if (!progress.ok()) return progress;
  }
}

Status ScalarSeries::SortRows() {
  std::stable_sort(rows_.begin(), rows_.end(),
                   [](const Row& a, const Row& b) { return std::tie(a.step, a.tag) < std::tie(b.step, b.tag); });
  const auto twice = std::adjacent_find(rows_.begin(), rows_.end(),
                                        [](const Row& a, const Row& b) { return a.step == b.step && a.tag == b.tag; });
  if (twice == rows_.end()) return Status();
  const auto place = [this](const Row& row) { return files_[row.file].path + ", line " + std::to_string(row.line); };
  return Status(StatusCode::kInvalid, place(twice[1]) + ": " + base::Printable(tags_[twice->tag], 200) + " has step " +
                                          std::to_string(twice->step) + " twice, first in " + place(*twice) +
                                          "; remove one of the rows");
}

void ScalarSeries::AppendScalars(const Row& row, std::vector<sinks::Scalar>* scalars) const {
  const std::vector<std::string>& stats = files_[row.file].stats;
  for (size_t i = 0; i < stats.size(); ++i)
    scalars->push_back({tags_[row.tag] + "/" + stats[i], values_[row.values + i]});
}

}  // namespace stepwatch::offline
