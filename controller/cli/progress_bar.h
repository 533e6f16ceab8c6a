// A progress bar on a terminal, for verbs that take their time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "stepwatch/offline.h"

namespace stepwatch::cli {

// "converting [########............] 41 % of 1.2 GB", at most `width` characters.
std::string ProgressLine(const offline::Progress& progress, int width);

// Draws on stderr if that is a terminal, and wipes its line at the end. One thread.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Show(const offline::Progress& progress);

 private:
  bool on_terminal_;
  std::string shown_;
};

}  // namespace stepwatch::cli
