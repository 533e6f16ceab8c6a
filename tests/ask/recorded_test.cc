// The messages of this version, as every build of it has written them: bytes that later builds must still read, and
// write. A change that another build would not read asks for a new version, and for records of its own.
#include <optional>
#include <string>

#include "controller/ask/messages.h"
#include "tests/catch.h"
#include "tests/recorded_message.h"

namespace stepwatch::ask {
namespace {

using testing::CheckRecorded;
using testing::RecordedMessage;

const std::string kRecorded = STEPWATCH_SOURCE_DIR "/tests/ask/recorded";

TEST_CASE("questions and what is handed on are what they were in every build of this version") {
  const std::string version = "s" + std::to_string(kMessageVersion);
  const ForwardId id{3, "ff00aa11", 2};
  CheckRecorded(kRecorded, version, "question", Question{.number = 7, .text = "{\"version\":1,\"ask\":\"report\"}\n"},
                QuestionFrom);
  CheckRecorded(kRecorded, version, "answer",
                AnswerToQuestion{.number = 7, .text = "{\"version\":1,\"state\":\"IDLE\"}"}, AnswerFrom);
  CheckRecorded(kRecorded, version, "request",
                ForwardedRequest{.id = id, .text = "{\"version\":1,\"method\":\"POST\"}\nbody"}, RequestFrom);
  CheckRecorded(kRecorded, version, "reply", ForwardReply{.id = id, .text = "{\"version\":1,\"status\":200}\nbody"},
                ReplyFrom);
}

TEST_CASE("an answer of another version is refused with one sentence that names both") {
  const std::optional<AnswerToQuestion> answer = AnswerFrom(RecordedMessage(kRecorded, "later", "answer"));
  REQUIRE(answer);
  CHECK(answer->version == kMessageVersion + 1);
  CHECK(answer->text.empty());
  CHECK(IncompatibleText(3, answer->version) ==
        "rank 3 runs another release of Stepwatch: it uses version " + std::to_string(answer->version) +
            " of the messages between ranks, this rank version " + std::to_string(kMessageVersion) +
            "; all ranks of a job must run the same release");
}

}  // namespace
}  // namespace stepwatch::ask
