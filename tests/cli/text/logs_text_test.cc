#include "controller/cli/text/logs_text.h"

#include "tests/catch.h"

namespace stepwatch::cli {
namespace {

TEST_CASE("a summary of logs begins with the cause and lists the last step of each rank") {
  LogSummary summary;
  for (int64_t rank = 0; rank < 2; ++rank) {
    logs::Record step;
    step.rank = rank;
    step.progress = logs::Progress{10 + rank, false, {{"loss", 2.5}}};
    summary.Add(step);
    step.progress = logs::Progress{10 + rank, false, {{"lr", 0.5}}};  // a second line about the step
    summary.Add(step);
  }
  logs::Record failed;
  failed.rank = 1;
  failed.source = "rank1.log";
  failed.message = "ValueError: bad\nmore";
  failed.exception = logs::Exception{"ValueError", "bad", "Traceback"};
  summary.Add(failed);
  const std::string text = summary.Text();
  CHECK(text.starts_with("cause: ValueError\n  rank 1, rank1.log\n  ValueError: bad\n"));
  CHECK(text.find("more") == std::string::npos);
  CHECK(text.find("11") != std::string::npos);
  CHECK(text.find("0.5") != std::string::npos);
  CHECK(text.find("2.5") != std::string::npos);
}

TEST_CASE("a summary without faults or lines states it") {
  LogSummary summary;
  CHECK(summary.Text() == "no lines\n");
  summary.Add({});
  CHECK(summary.Text().starts_with("no fault found\n"));
}

TEST_CASE("a record is printed with its rank, its level and the stack of its exception") {
  logs::Record record;
  record.rank = 3;
  record.message = "ValueError: bad";
  record.exception = logs::Exception{"ValueError", "bad", "Traceback\nValueError: bad"};
  CHECK(RecordText(record) == "rank 3 error: Traceback\nValueError: bad\n");
}

}  // namespace
}  // namespace stepwatch::cli
