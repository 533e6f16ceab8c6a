// The keys of `stepwatch top`. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "controller/cli/top_view.h"

namespace stepwatch::cli {

enum class TopKey : uint8_t {
  kLetter,
  kEnter,
  kEscape,
  kErase,
  kTab,
  kBackTab,
  kUp,
  kDown,
  kLeft,
  kRight,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
};

struct TopPress {
  TopKey key = TopKey::kLetter;
  char letter = 0;  // kLetter

  bool operator==(const TopPress&) const = default;
};

// The presses in what a terminal has sent at one time. Sequences that it does not know are passed over.
std::vector<TopPress> PressesIn(const std::string& bytes);

enum class TopWish : uint8_t { kNone, kQuit, kNextKind, kPreviousKind };

// What a press does to the choice: `page` rows are shown at a time.
TopWish Press(const TopPress& press, const TopTable& table, size_t page, TopChoice* choice);

}  // namespace stepwatch::cli
