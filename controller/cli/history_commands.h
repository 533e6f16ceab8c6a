// `stepwatch history`, `show` and `rollback`: what became of the edits of a run, with which bytes, and back to them.
#pragma once

#include <cstdint>
#include <string>

namespace stepwatch::cli {

struct HistoryArguments {
  std::string path;  // a history, the directory of a run, or the directory with those of several
  bool json = false;
};

struct ShowArguments {
  uint32_t plan_id = 0;
  std::string path;
  bool json = false;
};

struct RollbackArguments {
  uint32_t plan_id = 0;  // 0: the last one with another config than the one that ran last
  std::string config;
  std::string history;  // as HistoryArguments::path; empty: the output base
  std::string if_match;
  bool json = false;
};

// 0: done; 2: there is no such history or plan, or what is there cannot be read; 5: part of it is left out.
int RunHistory(const HistoryArguments& arguments);
int RunShow(const ShowArguments& arguments);
// As RunApply.
int RunRollback(const RollbackArguments& arguments);

}  // namespace stepwatch::cli
