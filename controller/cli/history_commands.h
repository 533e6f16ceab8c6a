// `stepwatch history` and `show`: what became of the edits of a run, and with which bytes.
#pragma once

#include <cstdint>
#include <string>

namespace stepwatch::cli {

struct HistoryArguments {
  std::string path;  // see FindHistoryPlace
  bool json = false;
};

struct ShowArguments {
  uint32_t plan_id = 0;
  std::string path;
  bool json = false;
};

// 0: done; 2: there is no such history or plan, or what is there cannot be read; 5: part of it is left out.
int RunHistory(const HistoryArguments& arguments);
int RunShow(const ShowArguments& arguments);

}  // namespace stepwatch::cli
