#include "src/logs/rank_causes.h"

#include <string>
#include <vector>

#include "src/logs/anomalies.h"
#include "tests/catch.h"
#include "tests/logs/catalogue.h"

namespace stepwatch::logs {
namespace {

Record At(double t, int64_t rank, const std::string& text, const std::string& host = "a") {
  Record record;
  record.t = t;
  record.rank = rank;
  record.host = host;
  record.message = text;
  Catalogue().Find(text, {}, &record.anomalies);
  return record;
}

Record Step(double t, int64_t rank, int64_t step, const std::string& host = "a") {
  Record record;
  record.t = t;
  record.rank = rank;
  record.host = host;
  record.progress = Progress{.step = step, .numbers = {{"loss", 2.0}}};
  return record;
}

const char* const kOom = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79 GiB";
const char* const kAborted = "[Rank 1] To avoid data inconsistency, we are taking the entire process down.";
const char* const kTimeout =
    "Exception detected by watchdog at work: 8, last enqueued NCCL work: 9, last completed NCCL work: 7.";

TEST_CASE("a cause comes before its consequence, in any order of records and with skewed clocks") {
  CHECK(RankCauses(std::vector{At(1, 1, kAborted), At(5, 0, kOom)}).front() == 1);
  CHECK(RankCauses(std::vector{At(700, 1, kTimeout), At(100, 0, kOom), At(701, 0, "Segmentation fault")}).front() == 1);
}

TEST_CASE("noise of an end is no cause") {
  const std::vector records{At(20, 3, "RuntimeError: DataLoader worker (pid 7) is killed by signal: Terminated."),
                            At(10, 0, "Sending process 7 closing signal SIGTERM"), At(9, 2, "Killed")};
  CHECK(RankCauses(records) == std::vector<size_t>{2, 1, 0});
}

TEST_CASE("a fault from which the run recovered is no cause") {
  std::vector records{At(10, 0, "An error occurred (SlowDown) when calling the GetObject operation"), Step(5, 0, 1)};
  for (int step = 2; step < 9; ++step) records.push_back(Step(20.0 * step, 0, step));
  records.push_back(At(200, 3, "Segmentation fault (core dumped)"));
  CHECK(RankCauses(records).front() == records.size() - 1);
}

TEST_CASE("clocks are compared by the steps that hosts finished at the same time") {
  std::vector<Record> records;
  for (int step = 1; step < 6; ++step) {
    records.push_back(Step(step, 0, step, "a"));
    records.push_back(Step(step + 1000, 4, step, "b"));
  }
  records.push_back(At(40, 0, "OSError: [Errno 28] No space left on device", "a"));  // 34 s after the one below
  records.push_back(At(1006, 4, kOom, "b"));
  CHECK(RankCauses(records).front() == records.size() - 1);
}

TEST_CASE("the rank that others name comes first, and then the one that entered fewer collectives") {
  const std::vector named{At(9, 1, "[Rank 1] remote error detected from rank: 5"), At(10, 2, "Segmentation fault"),
                          At(10, 5, "Segmentation fault")};
  CHECK(RankCauses(named).front() == 2);
  const std::vector behind{
      At(600, 0, kTimeout), At(600, 1, kTimeout),
      At(601, 2,
         "Exception detected by watchdog at work: 7, last enqueued NCCL work: 7, last completed NCCL work: 6.")};
  CHECK(RankCauses(behind).front() == 2);
}

TEST_CASE("records without anomalies are left out, and none gives none") {
  CHECK(RankCauses({}).empty());
  CHECK(RankCauses(std::vector{Step(1, 0, 1)}).empty());
}

}  // namespace
}  // namespace stepwatch::logs
