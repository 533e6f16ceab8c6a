// Leaves signals that the process gets in the pulse of its monitor, and changes nothing else about them.
//
// What a signal did before, it does still: a handler that was there runs, with its mask and flags, also one that a
// language has put there; the default action ends the process, at once, also while it hangs in a call. A signal that is
// ignored is left alone. Whoever sets a handler later replaces this one, and hears of nothing.
#pragma once

namespace stepwatch {
class Monitor;
}

namespace stepwatch::front_end {

// Begins with the first monitor of the process that asks. Several monitors are told all. Any thread. Beyond some dozens
// a monitor is not told.
void RecordSignals(Monitor* monitor) noexcept;
// Before the monitor is destroyed, on any thread. Handlers of ours stay, and do nothing but what was done before them:
// somebody may have put theirs on top.
void ForgetSignals(Monitor* monitor) noexcept;

}  // namespace stepwatch::front_end
