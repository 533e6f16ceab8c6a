// Threads of the monitor inside the user's program.
#pragma once

#include <functional>
#include <thread>

namespace stepwatch::base {

// Starts a thread that receives no signals except those of its own faults: the program's signals belong to the program.
// `name` has at most 15 characters. Throws std::system_error if the system has no thread left; the caller's signal mask
// is restored in that case too.
std::thread StartWorkerThread(const char* name, std::function<void()> body);

}  // namespace stepwatch::base
