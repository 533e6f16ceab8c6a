// Notifications of a service to systemd, as datagrams at NOTIFY_SOCKET.
#pragma once

#include <string>

namespace stepwatch::operations {

// "READY=1", "STOPPING=1", "WATCHDOG=1" …; does nothing without NOTIFY_SOCKET. Never blocks.
void NotifyService(const std::string& state);
// The same for a reload, which begins now.
void NotifyReloading();

}  // namespace stepwatch::operations
