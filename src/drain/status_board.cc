#include "src/drain/status_board.h"

#include <utility>

namespace stepwatch::drain {
namespace {

constexpr size_t kAlarmSentencesMax = 10000;

}  // namespace

void StatusBoard::Post(BoardEntry entry) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_.push_back(std::move(entry));
  }
  wake_();
}

void StatusBoard::Post(AlarmsRaised alarms) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (alarm_sentences_ + alarms.sentences.size() > kAlarmSentencesMax) {
      alarms.further += alarms.sentences.size();
      alarms.sentences.clear();
    }
    alarm_sentences_ += alarms.sentences.size();
    entries_.emplace_back(std::move(alarms));
  }
  wake_();
}

std::vector<BoardEntry> StatusBoard::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  alarm_sentences_ = 0;
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

std::vector<std::string> StatusBoard::TakeDiagnostics() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(troubles_, {});
}

}  // namespace stepwatch::drain
