#include "operations/vocabulary/known_process.h"

namespace stepwatch::operations {

std::string KeyOf(const KnownProcess& process) {
  const base::ProcessIdentity& named = process.process.pid > 0 ? process.process : process.own;
  std::string key = named.host + "/" + named.boot_id + "/" + named.pid_namespace + "/" + std::to_string(named.pid) +
                    "/" + std::to_string(named.started);
  // As it knows itself, it may know itself as another user's.
  if (process.process.pid <= 0 && process.uid) key += "/uid" + std::to_string(*process.uid);
  return key;
}

}  // namespace stepwatch::operations
