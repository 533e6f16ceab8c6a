// Thrown by a built-in sink for a frame that no retry can write: a bug of Stepwatch, which must not end the training
// run.
#pragma once

#include <stdexcept>

namespace stepwatch::sinks {

class ImpossibleFrame final : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace stepwatch::sinks
