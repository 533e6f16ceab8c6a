#include "operations/vocabulary/known_process.h"

namespace stepwatch::operations {

std::string KeyOf(const KnownProcess& process) {
  const base::ProcessIdentity& named = process.process.pid > 0 ? process.process : process.own;
  return named.host + "/" + named.boot_id + "/" + named.pid_namespace + "/" + std::to_string(named.pid) + "/" +
         std::to_string(named.started);
}

}  // namespace stepwatch::operations
