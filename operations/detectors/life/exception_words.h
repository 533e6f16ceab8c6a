// Classifies an exception by the words of its type and message.
#pragma once

#include "operations/vocabulary/line.h"

namespace stepwatch::operations {

struct ExceptionWords {
  bool are_no_fault = false;   // an interrupt, an exit
  bool are_of_memory = false;  // memory was not sufficient
  bool are_of_device = false;
  bool are_of_child = false;  // a child process of the rank, such as a loader, was ended
  bool are_of_peers = false;  // the rank fails because others have failed
};

ExceptionWords WordsOf(const ExceptionEvent& exception);

}  // namespace stepwatch::operations
