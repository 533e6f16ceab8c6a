#include "src/runtime/status_board.h"

#include <utility>

namespace stepwatch::runtime {

void StatusBoard::Post(BoardEntry entry) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_.push_back(std::move(entry));
  }
  wake_();
}

std::vector<BoardEntry> StatusBoard::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(entries_, {});
}

}  // namespace stepwatch::runtime
