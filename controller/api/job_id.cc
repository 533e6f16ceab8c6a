#include "controller/api/job_id.h"

#include <cstdlib>
#include <string_view>

namespace stepwatch::api {
namespace {

// torchrun passes "none" to its children if the rendezvous has no name (--rdzv-id), so this value identifies no job.
constexpr std::string_view kNoRendezvous = "none";

}  // namespace

std::string JobIdOr(const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  for (const char* name : {"STEPWATCH_JOB_ID", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"}) {
    const char* value = std::getenv(name);
    const std::string_view id = value == nullptr ? "" : value;
    if (!id.empty() && id != kNoRendezvous) return std::string(id);
  }
  return "";
}

}  // namespace stepwatch::api
