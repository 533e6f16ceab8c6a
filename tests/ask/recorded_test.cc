// The messages of this version, as every build of it has written them: bytes that later builds must still read, and
// write. A change that another build would not read asks for a new version, and for records of its own.
#include <filesystem>
#include <optional>
#include <string>

#include "controller/ask/messages.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::ask {
namespace {

std::string Recorded(const std::string& version, const std::string& name) {
  const std::string path = STEPWATCH_SOURCE_DIR "/tests/ask/recorded/" + version + "/" + name;
  INFO("of a new version the messages are recorded in " << path);
  REQUIRE(std::filesystem::exists(path));
  return testing::Contents(path);
}

// Both ways: what was recorded is read as this message, and this message is written as it was.
template <class Message, class Read>
void Holds(const std::string& version, const std::string& name, const Message& message, Read read) {
  INFO(version << "/" << name);
  const std::string recorded = Recorded(version, name);
  CHECK(Encode(message) == recorded);
  const std::optional<Message> found = read(recorded);
  REQUIRE(found);
  CHECK(Encode(*found) == recorded);
}

TEST_CASE("questions and what is handed on are what they were in every build of this version") {
  const std::string version = "s" + std::to_string(kMessageVersion);
  const ForwardId id{3, "ff00aa11", 2};
  Holds(version, "question", Question{.number = 7, .text = "{\"version\":1,\"ask\":\"report\"}\n"}, QuestionFrom);
  Holds(version, "answer", AnswerToQuestion{.number = 7, .text = "{\"version\":1,\"state\":\"IDLE\"}"}, AnswerFrom);
  Holds(version, "request", ForwardedRequest{.id = id, .text = "{\"version\":1,\"method\":\"POST\"}\nbody"},
        RequestFrom);
  Holds(version, "reply", ForwardReply{.id = id, .text = "{\"version\":1,\"status\":200}\nbody"}, ReplyFrom);
}

TEST_CASE("an answer of another version is refused with one sentence that names both") {
  const std::optional<AnswerToQuestion> answer = AnswerFrom(Recorded("later", "answer"));
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
