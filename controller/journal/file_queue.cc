#include "controller/journal/file_queue.h"

#include <chrono>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace stepwatch::journal {
namespace {

constexpr std::chrono::milliseconds kAgain{10};

// Sentences without the text of an exception are short enough to need no memory.
Status Try(const FileQueue::Work& work) noexcept {
  try {
    work();
    return Status();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kExhausted, "out of memory");
  } catch (const std::exception& error) {
    try {
      return Status(StatusCode::kInternal, error.what());
    } catch (...) {
    }
  } catch (...) {
  }
  return Status(StatusCode::kInternal, "unknown fault");
}

// The loop waits for this message: without memory it is sent a moment later.
void Send(watch::LoopMailbox* mailbox, const std::function<void()>& message) {
  for (;;) {
    try {
      return mailbox->Post(message);
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kAgain);
    }
  }
}

}  // namespace

void FileQueue::Do(Work work, Then then) {
  struct Entry {
    Work work;
    Then then;  // used by the loop only
    Status fault;
  };
  const auto entry = std::make_shared<Entry>(Entry{std::move(work), std::move(then), Status()});
  const std::function<void()> answer = [entry, living = std::weak_ptr<int>(under_way_)] {
    const std::shared_ptr<int> under_way = living.lock();
    if (!under_way) return;
    --*under_way;
    entry->then(entry->fault);
  };
  const bool is_taken = io_.Post([entry, answer, mailbox = mailbox_] {
    entry->fault = Try(std::exchange(entry->work, nullptr));
    Send(mailbox.get(), answer);
  });
  if (!is_taken) throw std::runtime_error("too many file operations are waiting for one that hangs");
  ++*under_way_;
}

}  // namespace stepwatch::journal
