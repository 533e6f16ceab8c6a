#include "operations/delivery/notice.h"

#include <array>

namespace stepwatch::operations::delivery {

std::string_view NameOf(NoticeState state) {
  constexpr std::array<std::string_view, 3> kNames = {"opened", "acknowledged", "resolved"};
  return kNames[static_cast<size_t>(state)];
}

}  // namespace stepwatch::operations::delivery
