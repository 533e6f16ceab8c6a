// `stepwatch ps`, `status` and `events`: running jobs, asked through their control sockets
// (docs/formats/control_api.md).
#pragma once

#include <string>

namespace stepwatch::cli {

struct PsArguments {
  bool json = false;
};

struct StatusArguments {
  std::string job;  // see FindJob; empty: the only one
  bool json = false;
  bool watch = false;
  bool ranks = false;  // all ranks of the job instead of this one
};

struct EventsArguments {
  std::string job;  // likewise
  bool json = false;
};

// 0: printed, also if no job runs; 5: a job was found that has not answered.
int RunPs(const PsArguments& arguments);
// 0: printed; 2: several jobs could be meant; 5: printed, and the newest edit is not taken over; 6: no such job, or it
// does not answer.
int RunStatus(const StatusArguments& arguments);
// Prints events until the job ends: 0; 2 and 6 as above.
int RunEvents(const EventsArguments& arguments);

}  // namespace stepwatch::cli
