// exception, and out_of_memory if the exception reports it: which rank failed first, and how many followed.
#pragma once

#include <set>

#include "operations/detectors/detector.h"

namespace stepwatch::operations {

class ExceptionDetector : public Detector {
 public:
  void OnEvent(const RunState& run, const Line& line, double now, Findings* findings) override;
  void OnRestart() override;

 private:
  struct First {
    IncidentKind kind = IncidentKind::kException;
    std::optional<int64_t> rank;
    double at = 0;
    double again_at = 0;  // on this rank, the last time
    int64_t times = 1;    // on this rank
    std::string fingerprint;
    bool is_cascade = false;  // it reports a failure of peers
    bool is_of_child = false;
    Finding finding;
  };

  bool IsAgain(const Line& line, const ExceptionEvent& exception, double now) const;
  void Follow(const Line& line, double now, Findings* findings);

  std::optional<First> first_;
  std::set<int64_t> followed_;
};

// Equal for the same fault on other ranks and at other times: the type, and the message without its numbers.
std::string FingerprintOf(const ExceptionEvent& exception);

}  // namespace stepwatch::operations
