// The changes of a model since it was read, and the words for them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "front_ends/torch/context.h"
#include "stepwatch/site.h"

namespace stepwatch::torch_front {

inline constexpr size_t kNowhere = ~size_t{0};

// Where modules and parameters of one index stand in another that has the same names; kNowhere: not there.
struct IndexMatch {
  std::vector<size_t> modules;
  std::vector<size_t> parameters;
  bool is_same = false;  // all of both, in the same order: what is planned for one holds for the other
};
IndexMatch MatchIndexes(const SiteIndex& known, const SiteIndex& fresh);
// The names of what is known and not there any more, or the other way round.
std::vector<std::string> GoneNames(const SiteIndex& known, const IndexMatch& match);
std::vector<std::string> FreshNames(const SiteIndex& fresh, const IndexMatch& match);

struct ModelChange {
  std::vector<std::string> replaced;  // parameters that are other tensors now
  std::vector<std::string> left;      // parameters that no attached optimizer updates any more
  std::vector<std::string> gone;      // modules and parameters that were there
  std::vector<std::string> fresh;     // and that were not
  size_t regrouped = 0;               // parameters that an attached optimizer updates now, and none or another before
  size_t strangers = 0;               // more tensors in optimizers that no attached module registers
};

// Tells what has changed: each kind once for the life of a monitor, as some models change every hundred steps.
class ChangeTeller {
 public:
  explicit ChangeTeller(Reporter* reporter) : reporter_(reporter) {}
  void Tell(const ModelChange& change);
  void TellModelGone();

 private:
  void TellOnce(bool* told, EventKind kind, std::string message);

  Reporter* const reporter_;
  bool replaced_ = false;
  bool left_ = false;
  bool reshaped_ = false;
  bool regrouped_ = false;
  bool strangers_ = false;
  bool model_gone_ = false;
};

}  // namespace stepwatch::torch_front
