// Threads of ours inside somebody else's program.
#pragma once

#include <functional>
#include <thread>

namespace stepwatch::base {

// Starts a thread that no signal is delivered to but those of its own faults: the program's signals are the program's.
// `name` has at most 15 characters. Throws std::system_error if the system has no thread left; the caller's signal mask
// is as before then, too.
std::thread StartWorkerThread(const char* name, std::function<void()> body);

}  // namespace stepwatch::base
