#include "src/logs/reader.h"

#include <limits>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace stepwatch::logs {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const Recogniser& SharedRecogniser() {
  static const Recogniser recogniser;
  return recogniser;
}

std::vector<Record> Read(const std::vector<std::string>& lines, ReaderOptions options = {}) {
  Reader reader(SharedRecogniser(), options);
  std::vector<Record> records;
  for (const std::string& line : lines) reader.Add({.text = line, .observed_t = 1763500000}, &records);
  reader.Flush(kInfinity, &records);
  return records;
}

const std::vector<std::string> kTraceback = {"Traceback (most recent call last):",
                                             "  File \"train.py\", line 7, in <module>",
                                             "    main()",
                                             "RuntimeError: CUDA error: device-side assert triggered",
                                             "CUDA kernel errors might be asynchronously reported",
                                             "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
                                             ""};

TEST_CASE("a traceback becomes one record, and the line after it another") {
  std::vector<std::string> lines = kTraceback;
  lines.emplace_back("step: 10  loss: 3.0");
  const std::vector<Record> records = Read(lines);
  REQUIRE(records.size() == 2);
  REQUIRE(records[0].exception);
  CHECK(records[0].exception->type == "RuntimeError");
  CHECK(records[0].exception->stack.starts_with("Traceback"));
  CHECK(records[0].exception->stack.ends_with("LAUNCH_BLOCKING=1"));
  CHECK(records[0].message.starts_with("RuntimeError: CUDA error"));
  CHECK(records[0].level == Level::kError);
  REQUIRE(records[1].progress);
  CHECK(records[1].progress->step == 10);
}

TEST_CASE("tracebacks of ranks that share a stream are put together by rank") {
  std::vector<std::string> lines;
  for (const std::string& line : kTraceback)
    for (const char* rank : {"[rank0]: ", "[rank1]: "}) lines.push_back(rank + line);
  const std::vector<Record> records = Read(lines);
  REQUIRE(records.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(records[i].rank == static_cast<int64_t>(i));
    REQUIRE(records[i].exception);
    CHECK(records[i].exception->stack.find("main()") != std::string::npos);
  }
}

TEST_CASE("a chain of exceptions is one record with the last one's type") {
  const std::vector<Record> records =
      Read({"Traceback (most recent call last):", "  File \"a.py\", line 1, in f", "KeyError: 'x'", "",
            "During handling of the above exception, another exception occurred:", "",
            "Traceback (most recent call last):", "  File \"a.py\", line 3, in g", "ValueError: bad",
            "Traceback (most recent call last):", "  File \"b.py\", line 3, in h", "OSError"});
  REQUIRE(records.size() == 2);
  CHECK(records[0].exception->type == "ValueError");
  CHECK(records[0].exception->stack.find("KeyError") != std::string::npos);
  CHECK(records[1].exception->type == "OSError");
}

TEST_CASE("the original traceback of a data loader belongs to its exception") {
  const std::vector<Record> records =
      Read({"Traceback (most recent call last):", "  File \"train.py\", line 9, in <module>",
            "FileNotFoundError: Caught FileNotFoundError in DataLoader worker process 0.",
            "Original Traceback (most recent call last):", "  File \"data.py\", line 2, in __getitem__",
            "FileNotFoundError: [Errno 2] No such file or directory: 'a'", ""});
  REQUIRE(records.size() == 1);
  CHECK(records[0].exception->message == "[Errno 2] No such file or directory: 'a'");
}

TEST_CASE("exceptions of other shapes are put together") {
  struct Case {
    std::vector<std::string> lines;
    std::string type, message_part;
  };
  const std::vector<Case> cases = {
      {{"  File \"a.py\", line 1", "    x = = 1", "        ^", "SyntaxError: invalid syntax"},
       "SyntaxError",
       "invalid"},
      {{"thread 'main' panicked at src/main.rs:2:5:", "index out of bounds", "note: run with `RUST_BACKTRACE=1`"},
       "panic",
       "index out"},
      {{"terminate called after throwing an instance of 'c10::Error'", "  what():  CUDA error: out",
        "Exception raised from f at a.cpp:1", "frame #0: f"},
       "c10::Error",
       "CUDA error"},
      {{"Fatal Python error: Segmentation fault", "",
        "Current thread 0x00007f (most recent call first):", "  File \"a.py\", line 3 in f"},
       "Fatal Python error",
       "Segmentation"},
      {{"  + Exception Group Traceback (most recent call last):", "  |   File \"a.py\", line 3, in f",
        "  | ExceptionGroup: several (1 sub-exception)", "  +-+---------------- 1 ----------------",
        "    | ValueError: bad", "    +------------------------------------"},
       "ExceptionGroup",
       "ValueError: bad"},
      {{"╭───────── Traceback (most recent call last) ─────────╮", "│ a.py:3 in f │", "╰──────────╯",
        "ValueError: bad"},
       "ValueError",
       "bad"},
  };
  for (const Case& each : cases) {
    INFO(each.type);
    std::vector<std::string> lines = each.lines;
    lines.emplace_back("next line");
    const std::vector<Record> records = Read(lines);
    REQUIRE(records.size() == 2);
    REQUIRE(records[0].exception);
    CHECK(records[0].exception->type == each.type);
    CHECK(records[0].message.find(each.message_part) != std::string::npos);
    CHECK(records[1].message == "next line");
  }
}

TEST_CASE("a held exception is emitted once it has waited long enough") {
  Reader reader(SharedRecogniser());
  std::vector<Record> records;
  for (const std::string& line : kTraceback) reader.Add({.text = line, .observed_t = 100}, &records);
  reader.Flush(101, &records);
  CHECK(records.empty());
  reader.Flush(102, &records);
  REQUIRE(records.size() == 1);
  CHECK(records[0].exception->type == "RuntimeError");
  reader.Flush(kInfinity, &records);
  CHECK(records.size() == 1);
}

TEST_CASE("an exception without end is cut and marked") {
  ReaderOptions options;
  options.exception_lines_max = 10;
  std::vector<std::string> lines = {"Traceback (most recent call last):"};
  for (int i = 0; i < 9; ++i) lines.emplace_back("  File \"a.py\", line 1, in f");
  lines.emplace_back("    f()");
  const std::vector<Record> records = Read(lines, options);
  REQUIRE(records.size() == 1);
  CHECK(records[0].is_truncated);
}

TEST_CASE("the last bar of a line counts, and what other writers put between is kept") {
  const std::vector<Record> records =
      Read({"  1%|1         | 10/1000 [00:10<03:20,  4.73it/s]\r  2%|2         | 20/1000 [00:10<03:20,  4.73it/s]"
            "[rank3]:[E1118 20:32:23.955028747 P.cpp:1] Watchdog caught\r"
            "  3%|3         | 30/1000 [00:10<03:20,  4.73it/s]\r  4%|4         | 40/1000 [00:10<03:20,  4.73it/s]"});
  REQUIRE(records.size() == 4);
  CHECK(records[0].message.find("10/1000") != std::string::npos);
  CHECK(records[2].rank == 3);
  CHECK(records[2].message == "Watchdog caught");
  CHECK(records[3].message.find("40/1000") != std::string::npos);
}

TEST_CASE("a dictionary of Hugging Face has the step of the bar that tqdm draws after it") {
  const std::vector<Record> records =
      Read({"  5%|5         | 48/1000 [00:10<03:20,  4.73it/s]\r                    \r{'loss': 2.5, 'learning_rate': "
            "1e-05, 'epoch': 0.1}",
            "\r  5%|5         | 50/1000 [00:10<03:20,  4.73it/s]"});
  bool is_found = false;
  for (const Record& record : records) {
    if (!record.progress) continue;
    is_found = true;
    CHECK(record.progress->step == 50);
  }
  CHECK(is_found);
}

TEST_CASE("a step of OLMo-core spans lines") {
  const std::vector<Record> records =
      Read({"2024-01-15 10:30:15 INFO [step=10/1000,epoch=1,eta=1:02:03]", "    optim/total grad norm=0.51",
            "    train/CE loss=3.25", "    throughput/device/TPS=12,345", "other"});
  REQUIRE(records.size() == 2);
  REQUIRE(records[0].progress);
  CHECK(records[0].progress->step == 10);
  REQUIRE(records[0].progress->numbers.size() == 3);
  CHECK(records[0].progress->numbers[1] == std::pair<std::string, double>("loss", 3.25));
}

TEST_CASE("the parts of a line that the container runtime cut are joined") {
  const std::vector<Record> records = Read({"2024-01-15T10:30:15Z stdout P step: 10  lo",
                                            "2024-01-15T10:30:15Z stdout P ss: 3", "2024-01-15T10:30:15Z stdout F .5"});
  REQUIRE(records.size() == 1);
  REQUIRE(records[0].progress);
  CHECK(records[0].progress->numbers[0].second == 3.5);
  CHECK(records[0].t == 1705314615.0);
}

TEST_CASE("JSON lines are read: docker's envelope, ECS, and the form of the articles") {
  const std::vector<Record> records = Read({
      R"({"log":"[rank1]: step: 10  loss: 3.5\n","stream":"stderr","time":"2024-01-15T10:30:15Z"})",
      R"({"@timestamp": "2024-01-15T10:30:15.000Z", "log.level": "info", "message": "epoch 1 completed", )"
      R"("rank": 0, "step": 459, )"
      R"("average_loss": 2.9, "eval_loss": 2.41, "epoch_steps": 460, "event.action": "epoch_completed"})",
      R"({"timestamp": "2024-01-15T10:30:15", "level": "INFO", "component": "training", "message": "m", )"
      R"("metrics": {"epoch": 1, "batch": 200, "loss": NaN, "learning_rate": 1e-4, "step_time": 0.02}})",
      R"({"@timestamp": "2024-01-15T10:30:15.000Z", "message": "checkpoint of step 4 completed", "step": 4})",
      R"({"nothing": [1, 2]})",
      R"({broken)",
  });
  REQUIRE(records.size() == 6);
  CHECK(records[0].rank == 1);
  CHECK(records[0].progress->step == 10);
  CHECK(records[0].t == 1705314615.0);
  CHECK(records[1].progress->is_evaluation);
  CHECK(records[1].progress->step == 459);
  CHECK(records[1].level == Level::kInfo);
  CHECK(records[1].rank == 0);
  REQUIRE(records[2].progress);
  CHECK(records[2].component == "training");
  CHECK_FALSE(records[3].progress);  // a checkpoint is no step
  CHECK(records[5].message == "{broken");
}

TEST_CASE("the file that tail names gives its lines a rank") {
  const std::vector<Record> records = Read({"==> logs/rank3.log <==", "text", "==> logs/rank4.log <==", "text"});
  REQUIRE(records.size() == 2);
  CHECK(records[0].rank == 3);
  CHECK(records[1].rank == 4);
  CHECK(records[1].source == "logs/rank4.log");
}

TEST_CASE("attributes of a line are bounded") {
  std::string line = "open path=/a/b size=12 mode=\"r w\" x==1 =2";
  const std::vector<Record> records = Read({line});
  REQUIRE(records[0].attributes.size() == 3);
  CHECK(records[0].attributes[2] == std::pair<std::string, std::string>("mode", "r w"));
  line.clear();
  for (int i = 0; i < 100; ++i) line += " a=1";
  CHECK(Read({line})[0].attributes.size() == kAttributesMax);
}

TEST_CASE("long lines and foreign bytes become bounded valid text") {
  const std::vector<Record> records = Read({std::string(1000000, 'x'),
                                            std::string("a\0\xff"
                                                        "b",
                                                        4),
                                            std::string(300000, '\r')});
  REQUIRE(records.size() == 2);
  CHECK(records[0].is_truncated);
  CHECK(records[0].message.size() == kMessageBytesMax);
  CHECK(records[1].message ==
        "a\xef\xbf\xbd"
        "b");
}

TEST_CASE("fields that never end are left out") {
  std::string pairs, fields = "Step 1: loss=2";
  for (int i = 0; i < 20000; ++i) {
    pairs += "a=";
    fields += ",a={}";
  }
  const std::vector<Record> records = Read({pairs, fields});
  REQUIRE(records.size() == 2);
  CHECK(records[0].attributes.size() <= kAttributesMax);
  REQUIRE(records[1].progress);
  CHECK(records[1].progress->numbers.size() == 1);
}

TEST_CASE("the sample lines of the articles are read") {
  const std::vector<Record> records = Read({"2024-01-15 10:30:15 INFO Epoch: 1, Loss: 2.345, Accuracy: 0.78",
                                            "2024-01-15 10:30:20 ERROR CUDA out of memory. Tried to allocate 2.00 GiB",
                                            "2024-01-15 10:30:25 INFO Step 100: loss=1.234, lr=1e-4, time=0.5s",
                                            "2024-01-15 10:30:30 WARNING Loss became nan at step 150"});
  REQUIRE(records.size() == 4);
  CHECK(records[0].t == 1705314615.0);
  CHECK(records[0].progress->numbers[1] == std::pair<std::string, double>("loss", 2.345));
  CHECK(records[1].level == Level::kError);
  CHECK(records[2].progress->step == 100);
  CHECK(records[3].level == Level::kWarning);
}

}  // namespace
}  // namespace stepwatch::logs
