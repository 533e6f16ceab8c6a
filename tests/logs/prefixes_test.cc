#include "src/logs/prefixes.h"

#include "tests/catch.h"

namespace stepwatch::logs {
namespace {

constexpr double kNow = 1763500000;  // 2025-11-18

Prefixes In(std::string_view line) {
  static const TimePolicy policy{kNow, 0};
  return DecodePrefixes(line, policy);
}

TEST_CASE("ranks of launchers are decoded") {
  CHECK(In("[default3]:loss").local_rank == 3);
  CHECK(In("[default3]:  File").message == "  File");
  CHECK(In("[rank3]: Traceback").rank == 3);
  CHECK(In("[rank3]:   File \"x\"").message == "  File \"x\"");
  CHECK(In("[Rank 0] step=10").message == "step=10");
  CHECK(In("[Rank 0 | Local Rank 1] x").local_rank == 1);
  CHECK(In("3: text").rank == 3);
  CHECK(In(" 3: text").rank == 3);
  CHECK(In("12: text").message == "text");
  CHECK(In("[1,7]<stdout>:text").rank == 7);
  CHECK(In("[prterun-node1-2@1,7]<stderr>:text").rank == 7);
  CHECK(In("rank_5: text").rank == 5);
}

TEST_CASE("nested and doubled prefixes are decoded") {
  const Prefixes found =
      In("[default3]:[rank11]:[E1118 20:32:23.955028747 ProcessGroupNCCL.cpp:616] [Rank 11] Watchdog");
  CHECK(found.local_rank == 3);
  CHECK(found.rank == 11);
  CHECK(found.level == Level::kError);
  CHECK(found.component == "ProcessGroupNCCL.cpp:616");
  CHECK(found.t.value_or(0) == Approx(1763497943.955).margin(0.01));
  CHECK(found.message == "Watchdog");
  CHECK(In("[rank3]:[W118 20:32:23.955028747 a.cpp:1] x").level == Level::kWarning);
  CHECK(In("[rank3]:[rank3]: x").message == "x");
}

TEST_CASE("hosts and pods are decoded") {
  CHECK(In("gpu-03: text").host == "gpu-03");
  CHECK(In("10.0.0.1: text").host == "10.0.0.1");
  CHECK(In("[pod/train-worker-3/pytorch] text").host == "train-worker-3");
  CHECK(In("train-worker-3 pytorch text").message == "text");
  CHECK(In("(TrainWorker pid=123, ip=10.0.0.7) text").host == "10.0.0.7");
  const Prefixes repeated = In("(TrainWorker pid=123) text [repeated 7x across cluster]");
  CHECK(repeated.message == "text");
  CHECK(repeated.repeated == 7);
  const Prefixes nccl = In("node3:123:456 [2] NCCL WARN Cuda failure");
  CHECK(nccl.host == "node3");
  CHECK(nccl.local_rank == 2);
  CHECK(nccl.level == Level::kWarning);
  CHECK(nccl.message == "NCCL WARN Cuda failure");
}

TEST_CASE("containers and syslog are decoded") {
  const Prefixes cri = In("2024-01-15T10:30:15.123456789Z stdout F [rank1]: text");
  CHECK(cri.message == "text");
  CHECK_FALSE(cri.has_own_header);
  CHECK_FALSE(cri.is_partial);
  CHECK(In("2024-01-15T10:30:15.123456789Z stderr P text").is_partial);
  const Prefixes syslog = In("Nov 18 05:40:12 node7 slurmd[123]: text");
  CHECK(syslog.host == "node7");
  CHECK(syslog.component == "slurmd");
  CHECK(syslog.message == "text");
  CHECK(TailedFile("==> logs/rank3.log <==") == "logs/rank3.log");
  CHECK(TailedFile("==> not a file").empty());
}

TEST_CASE("the usual forms of Python's loggers are decoded") {
  struct Case {
    std::string_view line, message, component;
    Level level;
  };
  const Case cases[] = {
      {"2024-01-15 10:30:15 INFO Epoch: 1", "Epoch: 1", "", Level::kInfo},
      {"2024-01-15 10:30:15,123 - train - ERROR - text", "text", "train", Level::kError},
      {"2023-08-02 00:41:17.936 | INFO     | __main__:log_dist:54 - text", "text", "__main__:log_dist:54",
       Level::kInfo},
      {"2023-07-07 12:28:57,802\tINFO train.py:323 in record_metrics -- text", "text", "train.py:323", Level::kInfo},
      {"[2023-08-02 00:41:17,935] [INFO] [logging.py:96:log_dist] text", "text", "logging.py:96:log_dist",
       Level::kInfo},
      {"[INFO|trainer.py:2134] 2024-01-01 10:00:00,000 >> text", "text", "trainer.py:2134", Level::kInfo},
      {"01/15/2024 10:30:15 - WARNING - __main__ - text", "text", "__main__", Level::kWarning},
      {"WARNING:root:text", "text", "root", Level::kWarning},
      {"ERROR: text", "text", "", Level::kError},
      {"[titan] 2025-01-01 00:00:00,000 - root - INFO - step: 1", "step: 1", "titan", Level::kInfo},
      {"I1118 20:32:23.955028 1234 file.cc:12] text", "text", "file.cc:12", Level::kInfo},
      {"[NeMo W 2024-08-13 10:00:00 nemo_logging:349] text", "text", "nemo_logging:349", Level::kWarning},
      {"[2025-05-27 15:23:07] iteration 1/ 2 | x", "iteration 1/ 2 | x", "", Level::kUnset},
  };
  for (const Case& each : cases) {
    INFO(each.line);
    const Prefixes found = In(each.line);
    CHECK(found.message == each.message);
    CHECK(found.component == each.component);
    CHECK(found.level == each.level);
    CHECK(found.has_own_header);
  }
}

TEST_CASE("a level counts only in its place") {
  CHECK(In("0 errors").level == Level::kUnset);
  CHECK(In("no ERROR here").level == Level::kUnset);
  CHECK(In("2024-01-15 10:30:15 INFO 3 ERRORS were fixed").level == Level::kInfo);
  CHECK(In("informative text").level == Level::kUnset);
  CHECK(In("Error: text").message == "Error: text");
}

TEST_CASE("plain text stays") {
  for (const std::string_view text :
       {"step: 10  loss: 3.2", "Traceback (most recent call last):", "  File \"a.py\", line 3, in f",
        "[step=1/2,epoch=1]", "RuntimeError: x", "[1, 2, 3]", "(a, b)", "iteration 1/ 2 | x", "", " ", "[", "==>"}) {
    INFO(text);
    CHECK(In(text).message == text);
  }
}

TEST_CASE("a path names its rank") {
  CHECK(RankOfPath("logs/rank3.log").rank == 3);
  CHECK(RankOfPath("logs/rank_12/stdout").rank == 12);
  CHECK(RankOfPath("logs/abc_x/attempt_0/3/stderr.log").local_rank == 3);
  CHECK_FALSE(RankOfPath("logs/abc_x/attempt_0/3/stderr.log").rank);
  CHECK_FALSE(RankOfPath("frankfurt/ranking.log").rank);
}

}  // namespace
}  // namespace stepwatch::logs
