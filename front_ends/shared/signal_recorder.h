// Records signals of the process in the pulse of its monitor, and changes nothing else about them.
//
// The previous behaviour stays: an installed handler runs with its mask and flags, also one of a language runtime; the
// default action ends the process at once, even inside a hanging call. An ignored signal stays ignored. A handler that
// is set later replaces this one, which then records no signals.
#pragma once

namespace stepwatch {
class Monitor;
}

namespace stepwatch::front_end {

// The first call of the process installs the handlers. Every registered monitor records the signals, up to 64. Any
// thread.
void RecordSignals(Monitor* monitor) noexcept;
// Call before the monitor is destroyed, on any thread. Our handlers stay installed and only forward, since other
// handlers may be chained on top.
void ForgetSignals(Monitor* monitor) noexcept;

}  // namespace stepwatch::front_end
