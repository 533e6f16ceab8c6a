// What a sink of ours throws when it is handed a frame that no retry can make writable: a fault of ours, which must not
// end the training run.
#pragma once

#include <stdexcept>

namespace stepwatch::sinks {

class ImpossibleFrame final : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace stepwatch::sinks
