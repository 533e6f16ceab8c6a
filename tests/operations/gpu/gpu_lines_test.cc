#include "operations/gpu/gpu_lines.h"

#include "operations/gpu/nvml_abi.h"
#include "operations/gpu/xid_counts.h"
#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

KnownProcess Process(const std::string& run, int64_t rank, int pid) {
  KnownProcess known{run, rank, {}};
  known.process.pid = pid;
  return known;
}

GpuReading Reading(const std::string& uuid, std::vector<int> processes) {
  GpuReading reading;
  reading.uuid = uuid;
  reading.processes = std::move(processes);
  reading.values[static_cast<size_t>(GpuField::kTemperature)] = 50;
  return reading;
}

// "run rank uuid field value" of each line.
std::vector<std::string> Texts(const std::vector<Line>& lines) {
  std::vector<std::string> texts;
  for (const Line& line : lines) {
    const auto& gpu = std::get<GpuEvent>(std::get<Event>(line.what));
    const std::string rank = line.rank ? std::to_string(*line.rank) : "-";
    texts.push_back(line.run + " " + rank + " " + gpu.uuid + " " + gpu.field + " " +
                    std::to_string(static_cast<int64_t>(gpu.value)));
  }
  return texts;
}

struct Host {
  GpuSample sample;
  std::vector<KnownProcess> processes;
  GpuUsers users;
  GpuLines lines;

  std::vector<std::string> At(double t) {
    users.Take(sample, processes, t);
    return Texts(lines.OnSample(sample, users, t));
  }
};

using Strings = std::vector<std::string>;

TEST_CASE("values go to the ranks that use the GPU, and later only changes") {
  Host host;
  host.sample.gpus = {Reading("A", {11, 7}), Reading("B", {12})};
  host.processes = {Process("r", 0, 11), Process("r", 1, 12)};
  CHECK(host.At(0) == Strings{"r 0 A lost 0", "r 0 A temperature_celsius 50", "r 0 A xid 0", "r 1 B lost 0",
                              "r 1 B temperature_celsius 50", "r 1 B xid 0"});
  CHECK(host.At(5).empty());
  host.sample.gpus[1].is_lost = true;
  host.sample.gpus[1].processes.clear();
  CHECK(host.At(10) == Strings{"r 1 B lost 1"});
}

TEST_CASE("a hot GPU, broken links and held clocks are reported with each sample, unconnected links never") {
  Host host;
  host.sample.gpus = {Reading("A", {11})};
  host.processes = {Process("r", 0, 11)};
  GpuReading& gpu = host.sample.gpus[0];
  gpu.links = {{0, true}, {1, true}, {2, false}};
  (void)host.At(0);
  gpu.links[1] = false;
  gpu.values[static_cast<size_t>(GpuField::kTemperature)] = 90;
  gpu.values[static_cast<size_t>(GpuField::kThrottle)] = static_cast<double>(nvml::kHardwareThermal);
  const Strings bad{"r 0 A hw_slowdown 1", "r 0 A nvlink_down 1", "r 0 A temperature_celsius 90"};
  CHECK(host.At(5) == bad);
  CHECK(host.At(10) == bad);
  gpu.links[1] = true;
  gpu.values[static_cast<size_t>(GpuField::kTemperature)] = 60;
  gpu.values[static_cast<size_t>(GpuField::kThrottle)] = static_cast<double>(nvml::kSoftwarePowerCap);
  CHECK(host.At(15) == Strings{"r 0 A hw_slowdown 0", "r 0 A nvlink_down 0", "r 0 A temperature_celsius 60"});
}

TEST_CASE("an Xid goes to the ranks of its GPU, again when it repeats, and is withdrawn after ten quiet minutes") {
  Host host;
  host.sample.gpus = {Reading("A", {11}), Reading("B", {12})};
  host.processes = {Process("r", 0, 11), Process("r", 1, 12)};
  (void)host.At(0);
  CHECK(Texts(host.lines.OnXid("B", 79, host.users, 1)) == Strings{"r 1 B xid 79"});
  CHECK(Texts(host.lines.OnXid("B", 79, host.users, 2)) == Strings{"r 1 B xid 0", "r 1 B xid 79"});
  CHECK(host.At(5).empty());
  CHECK(host.At(605) == Strings{"r 1 B xid 0"});
}

TEST_CASE("the fault of a sliced GPU is that of the ranks in its slices") {
  Host host;
  GpuReading slice = Reading("MIG", {12});
  slice.parent = "A";
  host.sample.gpus = {Reading("A", {}), slice};
  host.processes = {Process("r", 3, 12)};
  (void)host.At(0);
  CHECK(Texts(host.lines.OnXid("A", 48, host.users, 1)) == Strings{"r 3 A xid 48"});
  CHECK(host.users.Of("MIG") == std::set<GpuUser>{{"r", 3}});
  CHECK(host.users.Of("A").empty());
}

TEST_CASE("a rank is the user of its GPU for a minute after its end") {
  Host host;
  host.sample.gpus = {Reading("A", {11}), Reading("B", {12})};
  host.processes = {Process("r", 0, 11), Process("r", 1, 12)};
  (void)host.At(0);
  host.processes.pop_back();
  (void)host.At(60);
  CHECK(Texts(host.lines.OnXid("B", 79, host.users, 60)).size() == 1);
  (void)host.At(61);
  CHECK(host.lines.OnXid("B", 79, host.users, 61).empty());
}

TEST_CASE("where no process can be matched the fault of a GPU in use goes to each run of the host, without a rank") {
  Host host;
  host.sample.gpus = {Reading("A", {4711}), Reading("B", {}), Reading("C", {})};
  host.sample.gpus[2].values[static_cast<size_t>(GpuField::kMemoryUsed)] = 60e9;
  host.processes = {Process("r", 0, 11), Process("s", 0, 12)};
  (void)host.At(0);
  CHECK(Texts(host.lines.OnXid("A", 79, host.users, 1)) == Strings{"r - A xid 79", "s - A xid 79"});
  CHECK(host.lines.OnXid("B", 79, host.users, 1).empty());
  CHECK(host.lines.OnXid("C", 79, host.users, 1).size() == 2);
}

TEST_CASE("reports of one Xid by both sources count once, further ones each") {
  XidCounts counts;
  CHECK(counts.Take(XidSource::kNvml, "A", 79, 0));
  CHECK_FALSE(counts.Take(XidSource::kKernel, "A", 79, 0.5));
  CHECK(counts.Take(XidSource::kKernel, "A", 79, 1));
  CHECK(counts.Take(XidSource::kKernel, "A", 79, 2));
  CHECK_FALSE(counts.Take(XidSource::kNvml, "A", 79, 3));
  CHECK(counts.Take(XidSource::kNvml, "A", 79, 30));  // the other report is too old
  CHECK(counts.Take(XidSource::kKernel, "B", 79, 30));
  CHECK(counts.Take(XidSource::kKernel, "B", 13, 30));
  CHECK(counts.Counts() ==
        std::map<std::pair<std::string, int64_t>, int64_t>{{{"A", 79}, 4}, {{"B", 13}, 1}, {{"B", 79}, 1}});
}

TEST_CASE("Xids are read from records of the kernel, in all their forms") {
  const auto read = [](const std::string& text) { return ParseKernelXid("4,1,2,-;" + text + "\n SUBSYSTEM=pci\n"); };
  CHECK(read("NVRM: Xid (PCI:0000:3b:00): 79, pid=12, GPU has fallen off the bus.") == KernelXid{"0000:3b:00", 79});
  CHECK(read("NVRM: Xid (0000:03:00): 6, PE0001") == KernelXid{"0000:03:00", 6});
  CHECK(read("NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00") == KernelXid{"0018:01:00", 149});
  CHECK(read("NVRM: Xid (PCI:0018:01:00): 145, RLW_REMAP Nonfatal XC0 Link 07") == KernelXid{"0018:01:00", 145, true});
  CHECK(read("NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.") == KernelXid{"0000:3b:00", 79});
  CHECK(read("NVRM: GPU at PCI:0000:3b:00: GPU has fallen off the bus.") == KernelXid{"0000:3b:00", 79});
  for (const char* text : {"", "NVRM: Xid (PCI:0000:3b:00)", "NVRM: Xid (PCI:0000:3b:00): x", "NVRM: Xid (): 3",
                           "usb 1-1: Xid (PCI:0000:3b:00): 79", "NVRM: loading", "NVRM: GPU fallen off the bus"})
    CHECK_FALSE(read(text));
  CHECK_FALSE(ParseKernelXid("12,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, written by a program"));
  CHECK_FALSE(ParseKernelXid("NVRM: Xid (PCI:0000:3b:00): 79"));
}

}  // namespace
}  // namespace stepwatch::operations
