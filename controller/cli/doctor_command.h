// `stepwatch doctor`: which engines measure on this machine, and what is wrong with them.
#pragma once

namespace stepwatch::cli {

struct DoctorArguments {
  bool json = false;
};

// Returns the exit code: kExitDegraded if something that was asked for is not to be had.
int RunDoctor(const DoctorArguments& arguments);

}  // namespace stepwatch::cli
