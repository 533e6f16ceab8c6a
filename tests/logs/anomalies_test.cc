#include "src/logs/anomalies.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/logs/catalogue.h"

namespace stepwatch::logs {
namespace {

std::vector<Anomaly> Found(const std::string& message, const Context& context = {}) {
  std::vector<Anomaly> found;
  Catalogue().Find(message, context, &found);
  return found;
}

std::vector<std::string> Names(const std::string& message, const Context& context = {}) {
  std::vector<std::string> names;
  for (const Anomaly& each : Found(message, context)) names.emplace_back(each.name);
  return names;
}

using Texts = std::vector<std::string>;

std::map<std::string, std::string> Facts(const std::string& message) {
  std::map<std::string, std::string> facts;
  for (const Anomaly& each : Found(message)) facts.insert(each.facts.begin(), each.facts.end());
  return facts;
}

TEST_CASE("an out-of-memory error has the requested and the free bytes") {
  for (const char* text : {"CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 79.10 GiB of "
                           "which 512.00 MiB is free.",
                           "CUDA out of memory. Tried to allocate 2.50 GiB (GPU 3; 39.59 GiB total capacity; 35 GiB "
                           "already allocated; 512.00 "
                           "MiB free; 37 GiB reserved in total by PyTorch)"}) {
    CAPTURE(text);
    CHECK(Names(text) == Texts{"device_oom"});
    CHECK(Facts(text)["bytes_requested"] == "2684354560");
    CHECK(Facts(text)["bytes_free"] == "536870912");
  }
  CHECK(Facts("Out of memory: Killed process 77 (python) total-vm:9kB, anon-rss:2kB") ==
        std::map<std::string, std::string>{{"pid", "77"}, {"process", "python"}, {"bytes_resident", "2048"}});
}

TEST_CASE("the number of an Xid decides its class, and words in it the role") {
  const auto xid = [](const std::string& rest) { return "NVRM: Xid (PCI:0000:3b:00): " + rest; };
  CHECK(Names(xid("79, pid=1, GPU has fallen off the bus.")) == Texts{"gpu_lost"});
  CHECK(Names(xid("48, pid=1, name=python, DBE")) == Texts{"ecc_uncorrectable"});
  CHECK(Names(xid("31, pid=1, MMU Fault")) == Texts{"xid_app"});
  CHECK(Found(xid("45, pid=1, preemptive channel removal")).at(0).role == Role::kCascade);
  CHECK(Found(xid("145, RLW_CTRL Nonfatal XC0 i0 Link 00")).at(0).role == Role::kNotice);
  CHECK(Found(xid("145, RLW_CTRL Fatal XC0 i0 Link 00")).at(0).role == Role::kRoot);
  CHECK(Facts(xid("119, pid=1, Timeout"))["xid"] == "119");
  CHECK(Facts(xid("119, pid=1, Timeout"))["device"] == "0000:3b:00");
  CHECK(Names("LOG: oldest xmin: 71, xid 79").empty());
}

TEST_CASE("the rank that others name is the culprit") {
  CHECK(Found("[PG ID 0 Rank 2] remote error detected from rank: 5").at(0).culprit_rank == 5);
  CHECK(Found("Rank 12 failed to pass monitoredBarrier in 30000 ms").at(0).culprit_rank == 12);
}

TEST_CASE("a collective that timed out has its name and sequence number") {
  auto facts = Facts(
      "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, "
      "NumelIn=1, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.");
  CHECK(facts["sequence"] == "808");
  CHECK(facts["collective"] == "ALLREDUCE");
  facts = Facts("detected by watchdog at work: 808, last enqueued NCCL work: 811, last completed NCCL work: 807.");
  CHECK(facts["enqueued"] == "811");
  CHECK(facts["completed"] == "807");
}

TEST_CASE("numbers of a progress line decide before its phrases") {
  Progress progress{.step = 7, .numbers = {{"loss", std::nan("")}, {"grad_norm", HUGE_VAL}}};
  CHECK(Names("anything", {.progress = &progress}) == Texts{"loss_nonfinite", "grad_nonfinite"});
  CHECK(Found("anything", {.progress = &progress}).at(0).facts ==
        std::vector<std::pair<std::string, std::string>>{{"value", "nan"}, {"step", "7"}});
  progress.numbers = {{"loss", 0.0}, {"grad_norm", std::nan("")}};
  CHECK(Names("{'loss': 0.0, 'grad_norm': nan}", {.progress = &progress}) == Texts{"grad_nonfinite"});
  // A metric of one data set may be NaN on a healthy line.
  progress.numbers = {{"loss", 2.5}, {"loss/code", std::nan("")}};
  CHECK(Names("loss=2.5 loss/code=nan loss nan", {.progress = &progress}).empty());
}

TEST_CASE("words that contain others, counters that are zero, and advice are no evidence") {
  for (const char* text :
       {"loaded BLOOM with ZOOM", "the exchange changed hands", "12 nanoseconds per loss in finance",
        "number of skipped iterations:   0 | number of nan iterations:   0 |",
        "hint: if you see CUDA out of memory, try a smaller batch",
        "To avoid out of memory errors set PYTORCH_CUDA_ALLOC_CONF", "no nan detected in loss", "0 errors",
        "NCCL INFO NET/Plugin : Failed to find ncclNetPlugin_v8 symbol", "starting to save checkpoint at step 3",
        "Permission denied (publickey)", "loss=2.7 loss/en=nan loss/cn=2.7", "INFO loss information follows"}) {
    CAPTURE(text);
    CHECK(Names(text).empty());
  }
  CHECK(Names("number of nan iterations:   2 |") == Texts{"loss_nonfinite"});
}

TEST_CASE("a fault that the program handles is a notice") {
  const auto roles = [](const std::string& text) { return Found(text).at(0).role; };
  CHECK(roles("CUDA out of memory at batch size 64, trying a smaller batch") == Role::kNotice);
  CHECK(roles("An error occurred (SlowDown) when calling the PutObject operation, retrying in 3 s") == Role::kNotice);
  CHECK(roles("An error occurred (SlowDown) when calling the PutObject operation") == Role::kRoot);
}

TEST_CASE("a bare kill has an unknown cause") {
  for (const char* text :
       {"Killed", "srun: error: gpu01: task 3: Killed", "failed (exitcode: -9) local_rank: 3 (pid: 7)"}) {
    CHECK(Names(text) == Texts{"killed_unknown"});
    CHECK(Found(text).at(0).role == Role::kSymptom);
  }
  CHECK(Names("Killed 3 stale sessions").empty());
}

TEST_CASE("an exception is recognised by its type and message, not by its stack") {
  const std::string message =
      "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    raise RuntimeError(\"CUDA out of "
      "memory\")\n"
      "KeyError: 'labels'";
  const Exception plain{"KeyError", "'labels'", message};
  CHECK(Names(message, {.exception = &plain}) == Texts{"python_exception"});
  const Exception full{"OSError", "[Errno 28] No space left on device", ""};
  CHECK(Names("OSError: [Errno 28] No space left on device", {.exception = &full}) == Texts{"disk_full"});
  const Exception exit{"SystemExit", "0", ""};
  CHECK(Names("SystemExit: 0", {.exception = &exit}).empty());
}

TEST_CASE("one fault has one name") {
  CHECK(Names("RuntimeError: PytorchStreamWriter failed writing file: No space left on device") == Texts{"disk_full"});
  CHECK(Names("NCCL WARN Cuda failure 2 'out of memory'") == Texts{"device_oom"});
  CHECK(Names("RuntimeError: DataLoader worker (pid 7) is killed by signal: Segmentation fault.") ==
        Texts{"dataloader_dead"});
}

TEST_CASE("a message of any bytes and any length is searched within its bound") {
  CHECK(Names(std::string("\xff\xfe\x00 CUDA out of memory", 23) + "\x80") == Texts{"device_oom"});
  CHECK(Names(std::string(kMessageBytesMax, 'x') + " CUDA out of memory").empty());
  CHECK(Names("").empty());
}

}  // namespace
}  // namespace stepwatch::logs
