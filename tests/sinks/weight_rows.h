// CSV files of one weight `w`: the header, the rows, and the steps that make them.
#pragma once

#include <map>
#include <string>

#include "tests/catch.h"
#include "tests/sinks/sink_fixture.h"

namespace stepwatch::sinks::test {

using Files = std::map<std::string, std::string>;

inline const std::string kHeader = "vpp_stage,name,step,norm,shape,dtype\n";

inline std::string Row(int64_t step, const std::string& norm = "1.0") {
  return "0,w," + std::to_string(step) + "," + norm + ",[2],torch.float32\n";
}

inline RecordLayout OneWeight(int64_t steps_per_file = 1, PlanId plan = 1) {
  RecordLayout layout = Layout({Site(SiteKind::kParamOrigin, "w", 0)});
  layout.step_count_per_record = steps_per_file;
  layout.plan_id = plan;
  return layout;
}

// Writes one row of `w` for the step; the Status of it.
inline Status WriteStep(Sink* sink, const RecordLayout& layout, int64_t step) {
  const Frame frame(step, {NormRecord(0, 1)});
  return sink->Write(layout, frame.view).status;
}

}  // namespace stepwatch::sinks::test
