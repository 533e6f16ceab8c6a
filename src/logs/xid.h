// The classes that the numbers of NVIDIA's Xid messages stand for.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/logs/record.h"

namespace stepwatch::logs {

struct XidMeaning {
  std::string_view name;  // of a class
  Role role;
};

// Facts with the fact `xid`, and the whole message.
XidMeaning MeaningOfXid(const std::vector<std::pair<std::string, std::string>>& facts, std::string_view message);

}  // namespace stepwatch::logs
