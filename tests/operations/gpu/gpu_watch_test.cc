#include "operations/gpu/gpu_watch.h"

#include <boost/asio/io_context.hpp>

#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/has.h"
#include "tests/operations/gpu/fake_gpus.h"

namespace stepwatch::operations {
namespace {

using testing::Has;

// The kernel's log of a test: each call returns a record.
class KernelLogFiles : public base::FileSystemWrapper {
 public:
  int Open(const char* path, int flags, mode_t mode) override {
    return FileSystemWrapper::Open(path == std::string_view("/dev/kmsg") ? "/dev/null" : path, flags, mode);
  }
  ssize_t Read(int fd, void* bytes, size_t count, off_t offset) override {
    if (offset != 0) return FileSystemWrapper::Read(fd, bytes, count, offset);
    const std::lock_guard lock(mutex_);
    if (records_.empty()) {
      errno = EAGAIN;
      return -1;
    }
    const std::string record = records_.front();
    records_.erase(records_.begin());
    if (record.empty()) {
      errno = EPIPE;
      return -1;
    }
    return static_cast<ssize_t>(record.copy(static_cast<char*>(bytes), count));
  }
  void Add(const std::string& record) {
    const std::lock_guard lock(mutex_);
    records_.push_back(record);
  }
  bool IsRead() {
    const std::lock_guard lock(mutex_);
    return records_.empty();
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> records_;
};

struct Watched {
  explicit Watched(const std::string& control, const std::string& library = FakeGpus::Library())
      : fake(control), watch(loop, OptionsOf(library)) {
    watch.Start();
  }

  GpuWatch::Options OptionsOf(const std::string& library) {
    GpuWatch::Options options;
    options.library = library;
    options.interval = std::chrono::milliseconds(5);
    options.files = &files;
    options.wall = [] { return 1000.0; };
    options.processes = [] {
      KnownProcess known{"r", 3, {}};
      known.process.pid = 4711;
      return std::vector<KnownProcess>{known};
    };
    options.report = [this](const Line& line) {
      const auto& gpu = std::get<GpuEvent>(std::get<Event>(line.what));
      lines.push_back(line.run + " " + std::to_string(line.rank.value_or(-1)) + " " + gpu.field + " " +
                      std::to_string(static_cast<int64_t>(gpu.value)));
    };
    options.on_note = [this](const std::string& note) { notes.push_back(note); };
    return options;
  }
  bool Until(const std::function<bool()>& holds) {
    return testing::Eventually([&] {
      loop.poll();
      return holds();
    });
  }
  std::string Page() const {
    http::MetricsPage page(http::MetricsFormat::kPrometheus);
    http::AddFamilies(watch.Families(), &page);
    return std::move(page).Finish();
  }
  bool HasLine(const std::string& line) const { return std::find(lines.begin(), lines.end(), line) != lines.end(); }

  FakeGpus fake;
  KernelLogFiles files;
  boost::asio::io_context loop;
  std::vector<std::string> lines, notes;
  GpuWatch watch;
};

TEST_CASE("a GPU's values reach the page, and its faults the rank that uses it") {
  Watched gpus("process.0 4711\nlink1.0 0\npower.0.status 3\nuuid.0 GPU-\"x\n");
  REQUIRE(gpus.Until([&] { return Has(gpus.Page(), "stepwatchd_gpu_sm_active_ratio{gpu_uuid"); }));
  const std::string page = gpus.Page();
  const std::string labels = R"({gpu_uuid="GPU-\"x",gpu="0")";
  CHECK(Has(page, "stepwatchd_gpu_info" + labels + R"(,name="Fake",pci="0000:3b:00",driver="550.1",run="r"} 1)"));
  CHECK(Has(page, "stepwatchd_gpu_process" + labels + R"(,run="r",rank="3"} 1)"));
  CHECK(Has(page, "stepwatchd_gpu_temperature_celsius" + labels + "} 50"));
  CHECK(Has(page, "stepwatchd_gpu_energy_joules_total" + labels + "} 5"));
  CHECK(Has(page, "stepwatchd_gpu_ecc_errors_total" + labels + R"(,type="uncorrected"} 0)"));
  CHECK(Has(page, "stepwatchd_gpu_throttle_active" + labels + R"(,reason="hw_thermal"} 0)"));
  CHECK(Has(page, "stepwatchd_gpu_nvlink_up" + labels + R"(,link="1"} 0)"));
  CHECK(Has(page, "stepwatchd_gpu_field_supported" + labels + R"(,field="power"} 0)"));
  CHECK_FALSE(Has(page, "stepwatchd_gpu_power_watts{"));
  CHECK(Has(page, "stepwatchd_gpu_sampler_stuck_seconds 0\n"));
  CHECK(gpus.HasLine("r 3 xid 0"));
  gpus.fake.Set("process.0 4711\nuuid.0 GPU-\"x\necc_uncorrected.0 2\n");
  CHECK(gpus.Until([&] { return gpus.HasLine("r 3 ecc_uncorrected_total 2"); }));
}

TEST_CASE("an Xid that the driver and the kernel report counts once") {
  Watched gpus("process.0 4711\n");
  gpus.files.Add("4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 48, from before");
  REQUIRE(gpus.Until([&] { return gpus.HasLine("r 3 xid 0") && gpus.files.IsRead(); }));
  gpus.fake.Set("process.0 4711\nxid 79\nxid 31\n");
  const auto has_count = [&](const std::string& code, int count) {
    return Has(gpus.Page(), "xid=\"" + code + "\"} " + std::to_string(count) + "\n");
  };
  REQUIRE(gpus.Until([&] { return has_count("79", 1) && has_count("31", 1); }));
  gpus.files.Add("");  // some records were overwritten
  gpus.files.Add("4,3,4,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=12, GPU has fallen off the bus.");
  gpus.files.Add("4,4,5,-;NVRM: Xid (PCI:0000:3b:00): 74, NVLink");
  REQUIRE(gpus.Until([&] { return has_count("74", 1); }));
  CHECK(has_count("79", 1));
  CHECK_FALSE(Has(gpus.Page(), "xid=\"48\""));
  CHECK(gpus.HasLine("r 3 xid 79"));
  CHECK(gpus.HasLine("r 3 xid 74"));
}

TEST_CASE("a fault of an NVLink that the kernel calls nonfatal is counted and opens nothing") {
  Watched gpus("process.0 4711\n");
  REQUIRE(gpus.Until([&] {
    if (gpus.files.IsRead()) gpus.files.Add("4,3,4,-;NVRM: Xid (PCI:0000:3b:00): 43, pid=12");
    return gpus.HasLine("r 3 xid 43");
  }));
  gpus.files.Add("4,3,4,-;NVRM: Xid (PCI:0000:3b:00): 145, RLW_REMAP Nonfatal XC0 i0 Link 07");
  gpus.fake.Set("process.0 4711\nxid 145\nxid 149\n");
  REQUIRE(gpus.Until([&] { return gpus.HasLine("r 3 xid 149"); }));
  CHECK(Has(gpus.Page(), "xid=\"145\"} 1\n"));
  CHECK_FALSE(gpus.HasLine("r 3 xid 145"));
}

TEST_CASE("a call that hangs costs its thread, and the page keeps its last values") {
  Watched gpus("process.0 4711\n");
  REQUIRE(gpus.Until([&] { return gpus.HasLine("r 3 lost 0"); }));
  gpus.fake.Set("process.0 4711\nblock.power 1\n");
  REQUIRE(gpus.Until([&] { return gpus.watch.Now().stuck_seconds > 2; }));
  CHECK(Has(gpus.Page(), "stepwatchd_gpu_temperature_celsius{"));
  CHECK(*gpus.watch.Now().age_seconds > 2);
  // Other threads go on.
  gpus.fake.Set("process.0 4711\nblock.power 1\nxid 79\n");
  CHECK(gpus.Until([&] { return gpus.HasLine("r 3 xid 79"); }));
  gpus.fake.Set("process.0 4711\ntemperature.0 88\n");
  CHECK(gpus.Until([&] { return gpus.HasLine("r 3 temperature_celsius 88"); }));
  CHECK(gpus.watch.Now().stuck_seconds == 0);
}

TEST_CASE("other devices after a reload of the driver are watched, their Xids too") {
  Watched gpus("process.0 4711\n");
  REQUIRE(gpus.Until([&] { return gpus.HasLine("r 3 lost 0"); }));
  gpus.fake.Set("process.0 4711\nuuid.0 GPU-new\ncount 2\n");
  REQUIRE(gpus.Until([&] { return Has(gpus.Page(), "gpu_uuid=\"GPU.1\"") && Has(gpus.Page(), "GPU-new"); }));
  CHECK_FALSE(Has(gpus.Page(), "GPU.0"));
  gpus.fake.Set("process.0 4711\nuuid.0 GPU-new\ncount 2\nxid 119\n");
  CHECK(gpus.Until([&] { return Has(gpus.Page(), R"(gpu_uuid="GPU-new",gpu="0",xid="119"} 1)"); }));
}

TEST_CASE("without a library nothing is reported, and nothing logged") {
  Watched gpus("", "/nowhere/libnvidia-ml.so.1");
  for (int i = 0; i < 50; ++i) gpus.loop.run_one_for(std::chrono::milliseconds(5));
  CHECK(gpus.Page().empty());
  CHECK(gpus.lines.empty());
  CHECK(gpus.notes.empty());
}

}  // namespace
}  // namespace stepwatch::operations
