#include "controller/control_socket/job_owner.h"

#include <optional>

#include "src/base/found_file.h"
#include "src/base/pod_info.h"
#include "src/base/text.h"

namespace stepwatch::control_socket {
namespace {

// The place that the manual of Kubernetes uses for a volume of the downward API.
constexpr const char* kLabelsFile = "/etc/podinfo/labels";

}  // namespace

JobOwner FindJobOwner(const std::function<const char*(const char* name)>& variable, base::FileSystem& files) {
  std::optional<std::string> labels;
  const auto find = [&](const char* ours, const char* of_slurm, const char* label) -> std::string {
    for (const char* name : {ours, of_slurm})
      if (const char* value = variable(name); value != nullptr && *value != '\0')
        return base::Printable(value, JobOwner::kBytesMax);
    if (!labels) {
      const char* file = variable("STEPWATCH_POD_LABELS");
      const Result<std::string> text = base::ReadFound(file != nullptr && *file != '\0' ? file : kLabelsFile,
                                                       base::kPodInfoBytesMax, std::nullopt, files);
      labels = text.ok() ? text.value() : "";
    }
    return base::Printable(base::PodValue(*labels, label), JobOwner::kBytesMax);
  };
  JobOwner found;
  found.owner = find("STEPWATCH_OWNER", "SLURM_JOB_USER", "owner");
  found.partition = find("STEPWATCH_PARTITION", "SLURM_JOB_PARTITION", "partition");
  return found;
}

}  // namespace stepwatch::control_socket
