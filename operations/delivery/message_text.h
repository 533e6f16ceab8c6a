// The words of a message, in English or Chinese, before a receiver gives them its format.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operations/delivery/notice.h"

namespace stepwatch::operations::delivery {

// The colour of a card: firing, mixed or resolved.
enum class Colour : uint8_t { kRed, kOrange, kBlue, kGrey, kGreen };

// Limits of one attempt to stay below the size that a receiver accepts.
struct Fit {
  size_t text_bytes_max = Notice::kTextBytesMax;
  size_t evidence_max = Notice::kEvidenceMax;
  size_t digest_lines_max = 10;
  size_t link_bytes_max = Notice::kLinkBytesMax;
  bool is_first = true;
};

struct MessageText {
  using Pair = std::pair<std::string, std::string>;

  std::string headline;              // "[critical] llama: the loss jumped"
  std::vector<Pair> fields;          // "Rank", "3"
  std::vector<Pair> evidence;        // names as in the incident
  std::string advice_label;          // "Look first"
  std::string advice;                // empty: none
  std::vector<std::string> lines;    // of a digest
  std::vector<Pair> links;           // text of the button, address
  std::vector<std::string> remarks;  // "perhaps sent before", "shortened"
  Colour colour = Colour::kRed;
};

// `notices` is not empty. One notice and `more` of 0 give a full message, all else a digest.
MessageText TextOf(std::span<const Notice> notices, size_t more, std::string_view language, const Fit& fit);

// "[critical] llama: the loss jumped", on one line.
std::string HeadlineOf(const Notice& notice, std::string_view language, size_t bytes_max);
// "2026-11-28T01:02:03Z"; a time that is no date gives the nearest one.
std::string TimeText(double t, bool has_milliseconds = false);

// The first of ever smaller versions of a message whose size is `bytes_max` at most, otherwise the smallest.
std::string Fitted(size_t bytes_max, const std::function<std::string(const Fit&)>& write);

}  // namespace stepwatch::operations::delivery
