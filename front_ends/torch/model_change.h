// The changes of a model since it was last read, and their messages.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "front_ends/torch/context.h"
#include "stepwatch/site.h"

namespace stepwatch::torch_front {

inline constexpr size_t kNowhere = ~size_t{0};

// Positions of the modules and parameters of one index in another index with the same names; kNowhere: missing.
struct IndexMatch {
  std::vector<size_t> modules;
  std::vector<size_t> parameters;
  bool is_same = false;  // same names in the same order: the plan for one holds for the other
};
IndexMatch MatchIndexes(const SiteIndex& known, const SiteIndex& fresh);
// Names that are only in the known index, or only in the fresh one.
std::vector<std::string> GoneNames(const SiteIndex& known, const IndexMatch& match);
std::vector<std::string> FreshNames(const SiteIndex& fresh, const IndexMatch& match);

struct ModelChange {
  std::vector<std::string> replaced;  // parameters with a different tensor now
  std::vector<std::string> left;      // parameters that no attached optimizer updates any more
  std::vector<std::string> gone;      // modules and parameters that no longer exist
  std::vector<std::string> fresh;     // modules and parameters that are new
  size_t regrouped = 0;               // parameters with another optimizer than before, or with a first one
  size_t strangers = 0;               // additional tensors in optimizers that no attached module registers
};

// Reports changes, each kind once for the life of a monitor, since some models change every hundred steps.
class ChangeReporter {
 public:
  explicit ChangeReporter(Reporter* reporter) : reporter_(reporter) {}
  void Report(const ModelChange& change);
  void ReportModelGone();

 private:
  void ReportOnce(bool* reported, EventKind kind, std::string message);

  Reporter* const reporter_;
  bool replaced_ = false;
  bool left_ = false;
  bool reshaped_ = false;
  bool regrouped_ = false;
  bool strangers_ = false;
  bool model_gone_ = false;
};

}  // namespace stepwatch::torch_front
