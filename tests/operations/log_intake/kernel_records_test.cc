#include "operations/log_intake/kernel_records.h"

#include <fcntl.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>

#include "operations/log_intake/kernel_log_reader.h"
#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations {
namespace {

// The device of the kernel's log, with records of the test. An empty record: some were overwritten.
class FakeKernel : public base::FileSystemWrapper {
 public:
  int Open(const char* path, int flags, mode_t mode) override {
    if (std::strcmp(path, KernelRecords::kDevice) != 0) return FileSystemWrapper::Open(path, flags, mode);
    if (!is_readable) return (errno = EPERM, -1);
    return device_ = FileSystemWrapper::Open("/dev/null", O_RDONLY | O_CLOEXEC, 0);
  }
  ssize_t Read(int fd, void* bytes, size_t count, off_t offset) override {
    if (fd != device_) return FileSystemWrapper::Read(fd, bytes, count, offset);
    const std::lock_guard lock(mutex_);
    if (records_.empty()) return (errno = EAGAIN, -1);
    const std::string record = records_.front();
    records_.pop_front();
    if (record.empty()) return (errno = EPIPE, -1);
    if (record.size() > count) return (errno = EINVAL, -1);
    std::memcpy(bytes, record.data(), record.size());
    return static_cast<ssize_t>(record.size());
  }
  void Add(const std::string& record) {
    const std::lock_guard lock(mutex_);
    records_.push_back(record);
  }

  bool is_readable = true;

 private:
  int device_ = -1;
  std::mutex mutex_;
  std::deque<std::string> records_;
};

TEST_CASE("a record of the kernel has its number, time and level, and its bytes are unescaped") {
  const auto record = ParseKernelRecord("4,17,2500000,-;a \\x41\\xe2\\x82\\xac b\\\n SUBSYSTEM=pci\n");
  REQUIRE(record);
  CHECK(record->number == 17);
  CHECK(record->seconds == 2.5);
  CHECK(record->priority == 4);
  CHECK(record->text == "a A\xe2\x82\xac b\\");
}

TEST_CASE("a record that a program wrote, and a text that is no record, are left out") {
  for (const char* other :
       {"12,17,1,-;NVRM: Xid (PCI:0000:3b:00): 79", "x,1,1,-;a", "4,17;a", "4,17,1,-", "", "-1,1,1;a"})
    CHECK_FALSE(ParseKernelRecord(other));
}

TEST_CASE("records from before the first start are skipped, and later ones have ids, times and levels") {
  FakeKernel kernel;
  kernel.Add("3,1,1000000,-;old\n");
  KernelRecords records("", kernel);
  CHECK(records.Read(1000, 50).lines.empty());
  kernel.Add("3,2,20000000,-;new\n");
  const KernelBatch batch = records.Read(1000, 50);
  REQUIRE(batch.lines.size() == 1);
  CHECK(batch.lines[0].text == "new");
  CHECK(batch.lines[0].t == 970);
  CHECK(batch.lines[0].level == logs::Level::kError);
  CHECK(batch.lines[0].is_of_kernel);
  CHECK_FALSE(batch.lines[0].id.empty());
  CHECK_FALSE(batch.position.empty());
}

TEST_CASE("a restart reads on behind the kept position, and after a boot from the beginning") {
  FakeKernel kernel;
  KernelRecords first("", kernel);
  (void)first.Read(1000, 50);
  kernel.Add("3,5,1000000,-;five\n");
  const std::string position = first.Read(1000, 50).position;
  kernel.Add("3,5,1000000,-;five\n");
  kernel.Add("3,6,1000000,-;six\n");
  KernelRecords second(position, kernel);
  const KernelBatch batch = second.Read(1000, 50);
  REQUIRE(batch.lines.size() == 1);
  CHECK(batch.lines[0].text == "six");
  kernel.Add("3,1,1000000,-;one\n");
  KernelRecords rebooted("another-boot 99", kernel);
  CHECK(rebooted.Read(1000, 50).lines.size() == 1);
}

TEST_CASE("overwritten records are counted, and reading goes on") {
  FakeKernel kernel;
  KernelRecords records("", kernel);
  (void)records.Read(1000, 50);
  kernel.Add("");
  kernel.Add("3,9,1000000,-;nine\n");
  const KernelBatch batch = records.Read(1000, 50);
  CHECK(batch.overruns == 1);
  CHECK(batch.lines.size() == 1);
}

TEST_CASE("a kernel's log that may not be read is reported once, and is read as soon as it may") {
  FakeKernel kernel;
  kernel.is_readable = false;
  const testing::TemporaryDirectory place;
  boost::asio::io_context loop;
  std::vector<RunRecord> records;
  SentLineReaderOptions options;
  options.recogniser = std::make_shared<LazyRecogniser>();
  options.wall = [] { return 1.8e9; };
  options.take = [&](std::vector<RunRecord> taken, const std::function<void()>& then) {
    for (RunRecord& each : taken) records.push_back(std::move(each));
    then();
  };
  SentLineReader reader(loop, std::move(options));
  std::vector<std::string> notes;
  const std::string position = place / "position";
  KernelLogReader log(loop,
                      {.position_file = position,
                       .wall = [] { return 1.8e9; },
                       .log = [&](const std::string& note) { notes.push_back(note); },
                       .files = &kernel},
                      &reader);
  const auto until = [&](const std::function<bool()>& holds) {
    return testing::Eventually([&] {
      log.Tick();
      loop.restart();
      loop.poll();
      return holds();
    });
  };
  REQUIRE(until([&] { return !notes.empty(); }));
  kernel.is_readable = true;
  REQUIRE(until([&] {
    if (!records.empty()) return true;
    kernel.Add("3,9,1000000,-;Out of memory: Killed process 12 (python) total-vm:1kB\n");
    return false;
  }));
  CHECK(records[0].record.component == "kernel");
  CHECK_FALSE(records[0].record.anomalies.empty());
  CHECK(notes.size() == 1);
  CHECK(until([&] { return base::Exists(position); }));
}

}  // namespace
}  // namespace stepwatch::operations
