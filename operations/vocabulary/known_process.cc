#include "operations/vocabulary/known_process.h"

namespace stepwatch::operations {

std::string KeyOf(const KnownProcess& process) {
  const base::ProcessIdentity& named = process.process.pid > 0 ? process.process : process.own;
  std::string key = named.host + "/" + named.boot_id + "/" + named.pid_namespace + "/" + std::to_string(named.pid) +
                    "/" + std::to_string(named.started);
  // Without a pid here the identity is the process's own report, which may equal that of another user's process.
  if (process.process.pid <= 0 && process.uid) key += "/uid" + std::to_string(*process.uid);
  return key;
}

}  // namespace stepwatch::operations
