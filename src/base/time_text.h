// A point in time as text, in a format of strftime.
#pragma once

#include <ctime>
#include <string>

namespace stepwatch::base {

// In the time zone of the machine.
std::string LocalText(std::time_t time, const char* format = "%Y-%m-%dT%H:%M:%S%z");
std::string UtcText(std::time_t time, const char* format = "%Y-%m-%dT%H:%M:%SZ");

}  // namespace stepwatch::base
