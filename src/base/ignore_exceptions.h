#pragma once

namespace stepwatch::base {

// Runs a notification and ignores exceptions: the action that it reports has already succeeded, and lack of memory for
// an event must not undo it.
template <class Notification>
void IgnoreExceptions(Notification notification) noexcept {
  try {
    notification();
  } catch (...) {
  }
}

}  // namespace stepwatch::base
