#include "controller/writeback/edit_turn.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "controller/writeback/file_calls.h"

namespace stepwatch::writeback {
namespace {

using Clock = std::chrono::steady_clock;

// A turn takes less than a millisecond, or some hundred while another program has the config open for writing.
constexpr std::chrono::seconds kPatience{2};
constexpr std::chrono::milliseconds kTurnRetry{1};

}  // namespace

EditTurn::EditTurn(base::FileSystem& files, const std::string& directory) : files_(files) {
  if (OpenFile(files_, directory, O_RDONLY | O_DIRECTORY, &directory_) != 0) return;
  const Clock::time_point deadline = Clock::now() + kPatience;
  int error = 0;
  while ((error = ErrnoOf([&] { return files_.Lock(directory_.get(), LOCK_EX | LOCK_NB); })) == EWOULDBLOCK &&
         Clock::now() < deadline)
    std::this_thread::sleep_for(kTurnRetry);
  is_ours_ = error == 0;
}

EditTurn::~EditTurn() {
  if (is_ours_) files_.Lock(directory_.get(), LOCK_UN);
}

}  // namespace stepwatch::writeback
