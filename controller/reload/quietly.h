#pragma once

namespace stepwatch::reload {

// For what is only told: what it tells of has happened all the same, and does not fail because there is no memory for
// an event.
template <class Report>
void Quietly(Report report) noexcept {
  try {
    report();
  } catch (...) {
  }
}

}  // namespace stepwatch::reload
