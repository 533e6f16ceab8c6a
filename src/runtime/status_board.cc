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

void StatusBoard::PostTroubles(std::vector<std::string> sentences) {
  if (sentences.empty()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (std::string& sentence : sentences) troubles_.push_back(std::move(sentence));
  }
  wake_();
}

std::vector<std::string> StatusBoard::TakeTroubles() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(troubles_, {});
}

}  // namespace stepwatch::runtime
