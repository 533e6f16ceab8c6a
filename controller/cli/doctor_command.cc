#include "controller/cli/doctor_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "controller/cli/exit_code.h"
#include "controller/cli/print_answer.h"
#include "kernels/device_engine.h"
#include "kernels/kernels.h"
#include "src/base/print.h"
#include "stepwatch/version.h"

namespace stepwatch::cli {
namespace {

// The architectures whose device code this build holds.
std::vector<std::string> CodeIn(const kernels::CudaReport& cuda) {
  std::istringstream words(cuda.code);
  return {std::istream_iterator<std::string>(words), {}};
}

void PrintJson(const kernels::CpuReport& cpu, const kernels::CudaReport& cuda) {
  const nlohmann::ordered_json json = {
      {"version", kVersion},
      {"cpu",
       {{"target", cpu.in_use},
        {"available", cpu.available},
        {"wanted", cpu.wanted.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(cpu.wanted)},
        {"granted", cpu.granted}}},
      {"cuda", {{"built", cuda.built}, {"code", CodeIn(cuda)}, {"devices", cuda.devices}, {"reason", cuda.reason}}}};
  PrintObject(json);
}

std::string CpuLine(const kernels::CpuReport& cpu) {
  const std::string available = fmt::format("{}", fmt::join(cpu.available, ", "));
  if (!cpu.granted)
    return fmt::format("{}; STEPWATCH_CPU_TARGET is \"{}\", but this processor supports {}", cpu.in_use, cpu.wanted,
                       available);
  if (!cpu.wanted.empty())
    return fmt::format("{}, selected by STEPWATCH_CPU_TARGET; this processor supports {}", cpu.in_use, available);
  return fmt::format("{}; this processor supports {} (select one with STEPWATCH_CPU_TARGET)", cpu.in_use, available);
}

std::string CudaLine(const kernels::CudaReport& cuda) {
  const std::string found =
      cuda.devices == 0 ? cuda.reason : fmt::format("{} {}", cuda.devices, cuda.devices == 1 ? "device" : "devices");
  if (!cuda.built) return found;
  return fmt::format("{}; this build has device code for {}", found, fmt::join(CodeIn(cuda), ", "));
}

}  // namespace

int RunDoctor(const DoctorArguments& arguments) {
  const kernels::CpuReport cpu = kernels::AskCpu();
  const kernels::CudaReport cuda = kernels::AskCuda();
  if (arguments.json) {
    PrintJson(cpu, cuda);
  } else {
    base::Print(stdout, "stepwatch  %s\ncpu        %s\ncuda       %s\n", kVersion, CpuLine(cpu).c_str(),
                CudaLine(cuda).c_str());
  }
  return cpu.granted ? kExitDone : kExitDegraded;
}

}  // namespace stepwatch::cli
