#include "operations/detectors/numbers/step_rows.h"

#include <algorithm>

#include "operations/runs/sample_window.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kOpenRowsMax = 256;

template <class IsOdd>
std::vector<int64_t> Minority(const StepRow& row, IsOdd is_odd) {
  std::vector<int64_t> ranks;
  for (const auto& [rank, value] : row.values)
    if (is_odd(value)) ranks.push_back(rank);
  if (2 * ranks.size() > row.values.size() || row.values.size() < 2) return {};
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace

double StepRow::Median() const {
  std::vector<double> numbers;
  for (const auto& [rank, value] : values) numbers.push_back(value);
  return MedianOf(std::move(numbers));
}

double StepRow::Min() const {
  double least = values.front().second;
  for (const auto& [rank, value] : values) least = std::min(least, value);
  return least;
}

double StepRow::Max() const {
  double most = values.front().second;
  for (const auto& [rank, value] : values) most = std::max(most, value);
  return most;
}

std::vector<int64_t> RanksAbove(const StepRow& row, double limit) {
  return Minority(row, [&](double value) { return value > limit; });
}

std::vector<int64_t> RanksBelow(const StepRow& row, double limit) {
  return Minority(row, [&](double value) { return value < limit; });
}

void StepRows::Add(int64_t step, int64_t rank, double value, double now) {
  // A rank that comes too late is waited for next time as well.
  reporters_[rank] = step;
  if (step <= taken_step_) return;
  StepRow& row = open_[step];
  if (row.values.empty()) {
    row.step = step;
    row.now = now;
  }
  row.values.emplace_back(rank, value);
}

std::vector<StepRow> StepRows::Take(double now) {
  std::vector<StepRow> complete;
  int64_t last = taken_step_;
  size_t room = open_.size();
  for (const auto& [step, row] : open_)
    if (row.values.size() >= reporters_.size() || now - row.now >= patience_ || room-- > kOpenRowsMax) last = step;
  while (!open_.empty() && open_.begin()->first <= last) {
    complete.push_back(std::move(open_.begin()->second));
    open_.erase(open_.begin());
  }
  taken_step_ = last;
  return complete;
}

}  // namespace stepwatch::operations
