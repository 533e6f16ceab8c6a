// A notice on its way to one receiver, and its text as a row of the store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "operations/delivery/notice.h"
#include "stepwatch/status.h"

namespace stepwatch::operations::delivery {

enum class MessageState : uint8_t {
  kWaiting,
  kSending,  // perhaps received: after a crash it is sent again, marked as repeated
  kSent,
  kDead,  // given up
  kOpen,  // an alert of Alertmanager that is posted again and again
};
// waiting, sending, sent, dead, open.
std::string_view NameOf(MessageState state);

struct Message {
  Notice notice;
  MessageState state = MessageState::kWaiting;
  double queued_t = 0;
  double changed_t = 0;     // of `state`
  int64_t attempts = 0;     // that failed
  bool is_counted = false;  // it is only part of the number in a digest
  std::string reason;       // of the last failure
};

// Without evidence and advice once it is no longer to be sent.
std::string RowOf(const Message& message);
Result<Message> MessageOfRow(std::string_view text);

}  // namespace stepwatch::operations::delivery
