// What people say of incidents: `stepwatch ack` and `stepwatch silence`.
#pragma once

#include <cstdint>
#include <string>

namespace stepwatch::cli {

struct AckArguments {
  std::string incident;  // the beginning of its id is enough
  std::string note;
  std::string by;  // empty: the name of this user
  bool json = false;
  std::string stepwatchd;
};

struct SilenceArguments {
  std::string run;  // may have *; empty: all
  std::string kind;
  int64_t seconds = -1;  // below 0: not said
  std::string note;
  std::string by;
  bool list = false;
  std::string end;  // the beginning of the id of a silence
  bool json = false;
  std::string stepwatchd;
};

int RunAck(const AckArguments& arguments);
int RunSilence(const SilenceArguments& arguments);

}  // namespace stepwatch::cli
