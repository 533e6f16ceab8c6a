// The values that the ranks of a run report for one number, collected step by step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace stepwatch::operations {

struct StepRow {
  int64_t step = 0;
  double now = 0;
  std::vector<std::pair<int64_t, double>> values;  // rank and its value, in the order in which they came

  double Median() const;
  double Min() const;
  double Max() const;
};

// The ranks with values beyond `limit` if they are at most half of those in the row; otherwise empty: all ranks have
// the fault.
std::vector<int64_t> RanksAbove(const StepRow& row, double limit);
std::vector<int64_t> RanksBelow(const StepRow& row, double limit);

// A row is complete when all ranks that report the number have, or after `patience` seconds.
class StepRows {
 public:
  explicit StepRows(double patience = 1) : patience_(patience) {}

  void Add(int64_t step, int64_t rank, double value, double now);
  // Complete rows, in the order of their steps; each is returned once, and later values of its step are left out.
  std::vector<StepRow> Take(double now);
  void set_patience(double patience) { patience_ = patience; }
  size_t reporters() const { return reporters_.size(); }

 private:
  double patience_;
  int64_t taken_step_ = -1;
  std::map<int64_t, StepRow> open_;
  std::map<int64_t, int64_t> reporters_;  // rank to its last step
};

}  // namespace stepwatch::operations
