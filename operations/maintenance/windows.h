// Maintenance windows of a cluster as its scheduler announces them, and the silences that belong to them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operations/store/batch.h"

namespace stepwatch::operations {

struct MaintenanceWindow {
  std::string source;  // "Slurm", "Kubernetes"
  std::string name;
  std::string nodes;  // a list of Slurm, such as "gpu[01-16,20],login1"; empty: all
  double begin_t = 0;
  double end_t = 0;
};

inline constexpr size_t kWindowsMax = 256;

// The reservations with the flag MAINT. `text_untrusted`: the output of `scontrol --oneliner show reservation` with
// SLURM_TIME_FORMAT=%s. Lines without name, nodes and both times are ignored.
std::vector<MaintenanceWindow> ReservationsIn(std::string_view text_untrusted);

// The window that the label `maintenance` announces: its value is the name. `text_untrusted`: a file of Kubernetes'
// downward API. An empty value, "false" and "no" announce none.
std::vector<MaintenanceWindow> LabelledIn(std::string_view text_untrusted, double begin_t, double end_t);

// Whether a list of Slurm has this host. Both names are compared up to their first dot.
bool HasNode(std::string_view nodes, std::string_view host);

struct RunOnHosts {
  std::string run;
  std::vector<std::string> hosts;
};

struct SilenceChanges {
  std::vector<Silence> set;          // new ones, and ones with another end
  std::vector<std::string> removed;  // ids
};

// At most this many runs are silenced.
inline constexpr size_t kMaintenanceSilencesMax = 500;

// The changes at `t` that give each run on nodes of an open window its silence, and remove those of windows that are
// over. `present`: all silences; those of people are not touched.
SilenceChanges SilencesFor(const std::vector<MaintenanceWindow>& windows, const std::vector<RunOnHosts>& runs,
                           const std::vector<Silence>& present, double t);

}  // namespace stepwatch::operations
