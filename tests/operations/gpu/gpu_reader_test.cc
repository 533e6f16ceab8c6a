#include "operations/gpu/gpu_reader.h"

#include <cstddef>

#include "tests/catch.h"
#include "tests/has.h"
#include "tests/operations/gpu/fake_gpus.h"

namespace stepwatch::operations {
namespace {

bool IsUnsupported(const GpuReading& reading, GpuField field) {
  return reading.supported[static_cast<size_t>(field)] == false;
}

TEST_CASE("the layouts of NVML's structures are those of its binary interface") {
  CHECK(sizeof(nvml::Utilization) == 8);
  CHECK(sizeof(nvml::Memory) == 24);
  CHECK(offsetof(nvml::Memory, used) == 16);
  CHECK(sizeof(nvml::PciInfo) == 68);
  CHECK(offsetof(nvml::PciInfo, bus_id) == 36);
  CHECK(sizeof(nvml::ProcessInfo) == 24);
  CHECK(offsetof(nvml::ProcessInfo, gpu_instance) == 16);
  CHECK(sizeof(nvml::FieldValue) == 40);
  CHECK(offsetof(nvml::FieldValue, status) == 28);
  CHECK(offsetof(nvml::FieldValue, value) == 32);
  CHECK(sizeof(nvml::EventData) == 32);
  CHECK(offsetof(nvml::EventData, gpu_instance) == 24);
  CHECK(sizeof(nvml::GpmMetric) == 40);
  CHECK(offsetof(nvml::GpmMetrics, metrics) == 24);
  CHECK(sizeof(nvml::GpmSupport) == 8);
}

TEST_CASE("all values of two GPUs are read, in the units of the metrics") {
  FakeGpus fake("count 2\nuuid.1 GPU-b\ntemperature.1 97\n");
  GpuReader reader(FakeGpus::Library());
  (void)reader.Read(0);
  const GpuSample sample = reader.Read(5);
  REQUIRE(sample.gpus.size() == 2);
  CHECK(sample.driver == "550.1");
  CHECK(sample.gpus[0].pci == "0000:3b:00");
  const GpuReading& second = sample.gpus[1];
  CHECK(second.uuid == "GPU-b");
  CHECK(second.gpu == "1");
  CHECK(second[GpuField::kTemperature] == 97);
  CHECK(second[GpuField::kMemoryTemperature] == 60);
  CHECK(second[GpuField::kSlowdownTemperature] == 90);
  CHECK(second[GpuField::kPower] == 300);
  CHECK(second[GpuField::kPowerLimit] == 700);
  CHECK(second[GpuField::kEnergy] == 5);
  CHECK(second[GpuField::kUtilization] == 0.8);
  CHECK(second[GpuField::kSmActive] == 0.4);
  CHECK(second[GpuField::kMemoryUsed] == 1e10);
  CHECK(second.links == std::map<unsigned, bool>{{0, true}, {1, true}});
}

TEST_CASE("a device, or a value, that fails hides no other") {
  FakeGpus fake("count 2\npower.0.status 3\ntemperature.0.status 999\nstatus.1 15\n");
  GpuReader reader(FakeGpus::Library());
  const GpuSample sample = reader.Read(0);
  REQUIRE(sample.gpus.size() == 1);  // one that was lost before it had a name is unknown
  const GpuReading& first = sample.gpus[0];
  CHECK_FALSE(first[GpuField::kPower]);
  CHECK(IsUnsupported(first, GpuField::kPower));
  CHECK_FALSE(first[GpuField::kTemperature]);
  CHECK_FALSE(first.supported[static_cast<size_t>(GpuField::kTemperature)]);
  CHECK(first[GpuField::kPowerLimit] == 700);
}

TEST_CASE("a lost GPU keeps its identity, and is well again after its reset") {
  FakeGpus fake("count 2\n");
  GpuReader reader(FakeGpus::Library());
  (void)reader.Read(0);
  fake.Set("count 2\nstatus.1 15\n");
  GpuSample sample = reader.Read(5);
  REQUIRE(sample.gpus.size() == 2);
  CHECK_FALSE(sample.gpus[0].is_lost);
  CHECK(sample.gpus[1].is_lost);
  CHECK_FALSE(sample.gpus[1][GpuField::kTemperature]);
  sample = reader.Read(70);  // the library is opened again
  REQUIRE(sample.gpus.size() == 2);
  CHECK(sample.gpus[1].uuid == "GPU.1");
  CHECK(sample.gpus[1].is_lost);
  fake.Set("count 2\n");
  (void)reader.Read(140);
  CHECK_FALSE(reader.Read(145).gpus[1].is_lost);
}

TEST_CASE("numbers that stand for missing values, and impossible ones, are no values") {
  FakeGpus fake(
      "temperature.0 4294967295\npower.0 2147483632\nenergy.0 18446744073709551615\nutilization.0 101\n"
      "ecc_corrected.0 9223372036854775792\nmemory_temperature.0 0\n");
  GpuReader reader(FakeGpus::Library());
  const GpuReading gpu = reader.Read(0).gpus.at(0);
  for (const GpuField field : {GpuField::kTemperature, GpuField::kPower, GpuField::kEnergy, GpuField::kUtilization,
                               GpuField::kEccCorrected, GpuField::kMemoryTemperature}) {
    INFO(NameOf(field));
    CHECK_FALSE(gpu[field]);
  }
  CHECK(gpu[GpuField::kEccUncorrected] == 0);
}

TEST_CASE("an old driver reports throttling by its older name, and lacks what it has not") {
  FakeGpus fake("throttle.0 72\n");
  GpuReader reader(FakeGpus::OldLibrary());
  (void)reader.Read(0);
  const GpuReading gpu = reader.Read(5).gpus.at(0);
  CHECK(gpu[GpuField::kThrottle] == 72);
  CHECK_FALSE(gpu[GpuField::kSmActive]);
  CHECK(IsUnsupported(gpu, GpuField::kSmActive));
}

TEST_CASE("a structure of another size, and a list without room, cost their own value") {
  FakeGpus fake("gpm.0.status 25\nprocess.0 7\nprocess.0.status 7\nmemory_temperature.0.status 25\n");
  GpuReader reader(FakeGpus::Library());
  (void)reader.Read(0);
  const GpuReading gpu = reader.Read(5).gpus.at(0);
  CHECK(IsUnsupported(gpu, GpuField::kSmActive));
  CHECK(IsUnsupported(gpu, GpuField::kMemoryTemperature));
  CHECK(gpu.processes.empty());
  CHECK(gpu[GpuField::kPower] == 300);
}

TEST_CASE("without a library, or without a driver, there is no GPU and a reason") {
  const GpuSample none = GpuReader("/nowhere/libnvidia-ml.so.1").Read(0);
  CHECK(none.gpus.empty());
  CHECK_FALSE(none.has_library);
  CHECK(testing::Has(none.trouble, "/nowhere/libnvidia-ml.so.1"));
  FakeGpus fake("init.status 9\n");
  const GpuSample asleep = GpuReader(FakeGpus::Library()).Read(0);
  CHECK(asleep.has_library);
  CHECK(asleep.trouble == "nvmlInit_v2 returned 9");
}

TEST_CASE("a driver that is reloaded is used again") {
  FakeGpus fake("");
  GpuReader reader(FakeGpus::Library());
  CHECK(reader.Read(0).gpus.size() == 1);
  fake.Set("count.status 1\ninit.status 9\n");
  CHECK(reader.Read(5).trouble == "nvmlInit_v2 returned 9");
  fake.Set("driver 560.2\n");
  const GpuSample sample = reader.Read(10);
  CHECK(sample.gpus.size() == 1);
  CHECK(sample.driver == "560.2");
}

TEST_CASE("a session that another thread holds is awaited before the library begins anew") {
  FakeGpus fake("");
  GpuReader reader(FakeGpus::Library());
  (void)reader.Read(0);
  std::shared_ptr<const GpuSession> held = reader.session();
  fake.Set("uuid.0 GPU-new\n");
  CHECK(reader.Read(5).trouble == "NVML is still in use by another thread");
  CHECK(reader.session() == nullptr);
  held.reset();
  CHECK(reader.Read(6).gpus.at(0).uuid == "GPU-new");
}

TEST_CASE("a GPU that vanishes is lost, one that is replaced is not") {
  FakeGpus fake("count 2\n");
  GpuReader reader(FakeGpus::Library());
  (void)reader.Read(0);
  fake.Set("count 1\n");
  GpuSample sample = reader.Read(5);
  REQUIRE(sample.gpus.size() == 2);
  CHECK(sample.gpus[1].uuid == "GPU.1");
  CHECK(sample.gpus[1].is_lost);
  CHECK(reader.Read(5 + GpuReader::kVanishedSeconds + 1).gpus.size() == 1);
  fake.Set("count 1\nuuid.0 GPU-other\n");
  sample = reader.Read(1000);
  REQUIRE(sample.gpus.size() == 1);
  CHECK(sample.gpus[0].uuid == "GPU-other");
  CHECK_FALSE(sample.gpus[0].is_lost);
}

TEST_CASE("slices of a GPU have their own memory and load, and no made-up zero") {
  FakeGpus fake("mig.0 2\nutilization.0 0\nmemory.100 5\nsm_active.101 30\nuuid.100 MIG-a\nprocess.101 7\n");
  GpuReader reader(FakeGpus::Library());
  (void)reader.Read(0);
  const GpuSample sample = reader.Read(5);
  REQUIRE(sample.gpus.size() == 3);
  const GpuReading &whole = sample.gpus[0], &first = sample.gpus[1], &second = sample.gpus[2];
  CHECK_FALSE(whole[GpuField::kUtilization]);
  CHECK(IsUnsupported(whole, GpuField::kUtilization));
  CHECK(whole[GpuField::kTemperature] == 50);
  CHECK(first.uuid == "MIG-a");
  CHECK(first.gpu == "0:0");
  CHECK(first.parent == "GPU.0");
  CHECK(first[GpuField::kMemoryUsed] == 5);
  CHECK_FALSE(first[GpuField::kUtilization]);
  CHECK_FALSE(first[GpuField::kTemperature]);
  CHECK(second[GpuField::kSmActive] == 0.3);
  CHECK(second.processes == std::vector<int>{7});
}

TEST_CASE("addresses of PCI devices have one form") {
  CHECK(PciAddress("00000000:3B:00.0") == "0000:3b:00");
  CHECK(PciAddress("PCI:0000:3b:00") == "0000:3b:00");
  CHECK(PciAddress("0018:01:00") == "0018:01:00");
  for (const char* text : {"", "PCI:", "3b:00", "0000:3b", "0000:3b:00x", "123456789:3b:00"})
    CHECK(PciAddress(text).empty());
}

}  // namespace
}  // namespace stepwatch::operations
