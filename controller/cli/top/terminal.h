// The terminal while a program uses all of it: keys arrive one by one, and the earlier screen returns at the end.
#pragma once

#include <termios.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "controller/cli/top/view.h"
#include "src/base/file.h"

namespace stepwatch::cli {

// True if standard input and output are a terminal that interprets escapes.
bool CanTakeTerminal();

// One at a time. During its lifetime signals that end or stop a program are processed in order, on the thread that made
// it and on threads that this one starts later.
class Terminal {
 public:
  Terminal();
  // Restores the terminal.
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  struct Input {
    std::string bytes;        // that were typed
    bool ends = false;        // the program must end, or the terminal is closed
    bool is_resized = false;  // or was covered: the whole screen must be redrawn
    bool is_woken = false;    // reported by the descriptor
  };
  // Waits for one of these; `wake_up`: a descriptor that becomes readable, and is emptied.
  Input Wait(int wake_up);

  TopSize Size() const;
  // Replaces the screen.
  void Show(const std::vector<std::string>& lines);

 private:
  void Take();
  void GiveBack() noexcept;
  void Suspend();

  termios before_{};
  sigset_t signals_before_{};
  base::UniqueFd signals_;
};

}  // namespace stepwatch::cli
