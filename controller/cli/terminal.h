// The terminal while a program has all of it: keys come one by one, and what was on the screen comes back at the end.
#pragma once

#include <termios.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "controller/cli/top_view.h"
#include "src/base/file.h"

namespace stepwatch::cli {

// Standard input and output are a terminal that shows more than lines.
bool CanTakeTerminal();

// One at a time. While it lives, signals that end or stop a program are taken in order, on the thread that made it and
// on threads that this one starts later.
class Terminal {
 public:
  Terminal();
  // Puts everything back.
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  struct Input {
    std::string bytes;        // that were typed
    bool ends = false;        // somebody wants the program to end, or nobody is there any more
    bool is_resized = false;  // or was covered: everything is to be shown again
    bool is_woken = false;    // by the descriptor
  };
  // Waits for something of the kind; `wake_up` is a descriptor that becomes readable, and is emptied.
  Input Wait(int wake_up);

  TopSize Size() const;
  // Replaces what is shown.
  void Show(const std::vector<std::string>& lines);

 private:
  void Take();
  void GiveBack() noexcept;
  void StopForAWhile();

  termios before_{};
  sigset_t signals_before_{};
  base::UniqueFd signals_;
};

}  // namespace stepwatch::cli
