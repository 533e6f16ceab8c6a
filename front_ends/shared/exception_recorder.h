// Reports an uncaught C++ exception to a monitor; the process then ends as it would have without it.
//
// The previous terminate handler still runs, std::abort by default. A handler that is set later replaces this one,
// which then reports no exceptions.
#pragma once

namespace stepwatch {
class Monitor;
}

namespace stepwatch::front_end {

// The first call of the process installs the handler. Every registered monitor gets the report. Any thread.
void RecordExceptions(Monitor* monitor) noexcept;
// Call before the monitor is destroyed, on any thread.
void ForgetExceptions(Monitor* monitor) noexcept;

}  // namespace stepwatch::front_end
