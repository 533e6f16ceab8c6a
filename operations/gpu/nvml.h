// NVIDIA's library NVML, opened at run time.
#pragma once

#include <memory>
#include <string>

#include "operations/gpu/nvml_abi.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

// Any call may block for as long as the driver hangs, so every call belongs to a thread that may be lost. The object
// outlives all handles that it returned; its end shuts the library down.
class Nvml {
 public:
  // kNotFound: there is no library, or it is none. kUnavailable: it cannot begin, as without a driver.
  static Result<std::shared_ptr<Nvml>> Open(const std::string& library = kNvmlLibrary);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  const nvml::Functions& functions() const { return functions_; }

  // A function that the library lacks returns the status of one that is not found.
  template <class Function, class... Arguments>
  static nvml::Return Call(Function function, Arguments... arguments) {
    return function == nullptr ? nvml::kFunctionNotFound : function(arguments...);
  }

 private:
  explicit Nvml(void* library);

  void* const library_;
  bool is_begun_ = false;
  nvml::Functions functions_;
};

}  // namespace stepwatch::operations
