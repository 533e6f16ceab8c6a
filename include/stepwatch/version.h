// Version of the library these headers belong to.
#pragma once

namespace stepwatch {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace stepwatch
