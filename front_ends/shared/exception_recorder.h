// Tells a monitor of a C++ exception that nobody catches, while the process ends by it as it would have.
//
// Whatever std::terminate did before, it does still: the handler that was there runs, std::abort by default. Whoever
// sets a handler later replaces this one, and hears of nothing.
#pragma once

namespace stepwatch {
class Monitor;
}

namespace stepwatch::front_end {

// Begins with the first monitor of the process that asks. Several monitors are told all. Any thread.
void RecordExceptions(Monitor* monitor) noexcept;
// Before the monitor is destroyed, on any thread.
void ForgetExceptions(Monitor* monitor) noexcept;

}  // namespace stepwatch::front_end
