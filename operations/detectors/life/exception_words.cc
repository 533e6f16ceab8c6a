#include "operations/detectors/life/exception_words.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

namespace stepwatch::operations {
namespace {

// A peer that fails because another rank has failed: the process or exception of that rank is the cause, if it is
// reported in time.
constexpr std::string_view kPeers[] = {"nccl",
                                       "gloo",
                                       "connection reset",
                                       "connection closed",
                                       "connection refused",
                                       "broken pipe",
                                       "socket timeout",
                                       "processgroup",
                                       "process group",
                                       "distbackenderror",
                                       "diststoreerror",
                                       "distnetworkerror",
                                       "tcpstore",
                                       "peer",
                                       "heartbeat",
                                       "collective",
                                       "barrier",
                                       "rendezvous",
                                       "childfailederror"};
constexpr std::string_view kChild[] = {"killed by signal", "exited unexpectedly"};
constexpr std::string_view kMemory[] = {
    "outofmemory", "out of memory", "memoryerror",      "allocate memory", "not enough memory", "insufficient memory",
    "bad_alloc",   "badalloc",      "memoryallocation", "alloc_failed",    "resource_exhausted"};
// The last one is torchrun's report of a request to end.
constexpr std::string_view kNoFault[] = {"keyboardinterrupt", "systemexit", "generatorexit", "signalexception"};
constexpr std::string_view kDevice[] = {"cuda", "cublas", "cudnn", "hip", "gpu", "device"};

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return lower;
}

template <size_t kCount>
bool HasAny(const std::string& text, const std::string_view (&words)[kCount]) {
  return std::any_of(std::begin(words), std::end(words),
                     [&](std::string_view word) { return text.find(word) != std::string::npos; });
}

// Matches "OOM" and "oom-kill" as words, not in "BLOOM" or "zoom_oom.bin".
bool HasOom(const std::string& text) {
  const auto is_of_word = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '.' || letter == '/';
  };
  for (size_t at = text.find("oom"); at != std::string::npos; at = text.find("oom", at + 1)) {
    const bool begins = at == 0 || !is_of_word(text[at - 1]);
    const bool ends = at + 3 >= text.size() || !is_of_word(text[at + 3]) || at + 4 == text.size();
    if (begins && ends) return true;
  }
  return false;
}

}  // namespace

ExceptionWords WordsOf(const ExceptionEvent& exception) {
  const std::string text = Lower(exception.type + ": " + exception.message);
  ExceptionWords words;
  words.are_no_fault = HasAny(Lower(exception.type), kNoFault);
  words.are_of_memory = HasAny(text, kMemory) || HasOom(text);
  words.are_of_device = HasAny(text, kDevice);
  words.are_of_child = HasAny(text, kChild);
  words.are_of_peers = !words.are_of_memory && (HasAny(text, kPeers) || words.are_of_child);
  return words;
}

}  // namespace stepwatch::operations
