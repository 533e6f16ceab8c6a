// `stepwatch doctor`: the statistics engines of this machine, and why one is not available.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <cstdio>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "controller/cli/print_answer.h"
#include "controller/cli/verbs.h"
#include "kernels/device_engine.h"
#include "kernels/kernels.h"
#include "src/base/print.h"
#include "src/json/json.h"
#include "stepwatch/version.h"

namespace stepwatch::cli {
namespace {

struct DoctorArguments {
  bool json = false;
};

// The architectures whose device code this build holds.
std::vector<std::string> CodeIn(const kernels::CudaReport& cuda) {
  std::istringstream words(cuda.code);
  return {std::istream_iterator<std::string>(words), {}};
}

void PrintJson(const kernels::CpuReport& cpu, const kernels::CudaReport& cuda) {
  const Json report = {
      {"version", kVersion},
      {"cpu",
       {{"target", cpu.in_use},
        {"available", cpu.available},
        {"wanted", json::OrNull(cpu.wanted)},
        {"granted", cpu.granted}}},
      {"cuda", {{"built", cuda.built}, {"code", CodeIn(cuda)}, {"devices", cuda.devices}, {"reason", cuda.reason}}}};
  PrintObject(report);
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

int RunDoctor(const DoctorArguments& arguments) {
  const kernels::CpuReport cpu = kernels::DetectCpu();
  const kernels::CudaReport cuda = kernels::DetectCuda();
  if (arguments.json) {
    PrintJson(cpu, cuda);
  } else {
    base::Print(stdout, "stepwatch  %s\ncpu        %s\ncuda       %s\n", kVersion, CpuLine(cpu).c_str(),
                CudaLine(cuda).c_str());
  }
  return cpu.granted ? kExitDone : kExitDegraded;
}

}  // namespace

void AddDoctor(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* verb = app->add_subcommand("doctor", "List the statistics engines available on this machine");
  verb->add_flag("--json", arguments->json, "one JSON object instead of lines");
  verb->callback([=] { *exit_code = RunDoctor(*arguments); });
}

}  // namespace stepwatch::cli
