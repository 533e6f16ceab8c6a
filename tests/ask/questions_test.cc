// Questions of the leader, and requests that are handed on to it, through a store with faults.
#include <random>

#include "tests/ask/talking_job.h"
#include "tests/rounds.h"

namespace stepwatch::ask {
namespace {

constexpr Store::Abilities kPolls{false, false};
constexpr Store::Abilities kListens{false, true};

std::vector<std::string> TextsOf(const std::vector<RankAnswer>& answers) {
  std::vector<std::string> texts;
  for (const RankAnswer& each : answers)
    texts.push_back(each.text_untrusted.empty() ? each.trouble : each.text_untrusted);
  return texts;
}

using Texts = std::vector<std::string>;

TEST_CASE("questions: every rank is asked once and answers for itself") {
  for (const Store::Abilities& abilities : {kPolls, kListens}) {
    TalkingJob job(3, abilities);
    for (size_t rank = 0; rank < 3; ++rank) job.host(rank).answer = "I am " + std::to_string(rank);
    const auto asked = job.Ask("who are you?\nsay");
    job.Run(milliseconds(200));
    CHECK(TextsOf(asked->all()) == Texts{"I am 0", "I am 1", "I am 2"});
    for (size_t rank = 0; rank < 3; ++rank) CHECK(job.host(rank).questions == Texts{"who are you?\nsay"});
    CHECK(asked->all()[1].after > milliseconds(0));
    job.Run(milliseconds(100));
    CHECK(job.values.at(job.KeyOf("q")) == "over");
  }
}

TEST_CASE("questions: without a question no rank makes a request, but for a leader that cannot listen") {
  for (const bool listens : {true, false}) {
    TalkingJob job(5, {false, listens});
    const auto asked = job.Ask("a");
    job.Run(milliseconds(3000));
    REQUIRE(asked->answers);
    job.TakeRequests();
    job.Run(milliseconds(50000));
    CHECK(job.TakeRequests() <= (listens ? 1 : 201));
  }
}

TEST_CASE("questions: a rank that never answers is missing, and the others are not") {
  TalkingJob job(3);
  job.ranks[1]->receives = false;
  const auto asked = job.Ask("a", milliseconds(300));
  job.Run(milliseconds(290));
  CHECK_FALSE(asked->answers);
  job.Run(milliseconds(30));
  CHECK(TextsOf(asked->all()) == Texts{"well", "no answer within 300 ms", "well"});
  // A late answer to a question that is over does not count for the next one.
  job.values[job.KeyOf("a/1")] = Encode(AnswerToQuestion{1, 1, "late"});
  const auto next = job.Ask("b", milliseconds(300));
  job.Run(milliseconds(400));
  CHECK(TextsOf(next->all()) == Texts{"well", "no answer within 300 ms", "well"});
}

TEST_CASE("questions: several are asked one after the other, and equal ones once") {
  TalkingJob job(2);
  const auto first = job.Ask("a"), second = job.Ask("b"), third = job.Ask("b"), fourth = job.Ask("c");
  job.Run(milliseconds(500));
  for (const auto& asked : {first, second, third, fourth}) CHECK(TextsOf(asked->all()) == Texts{"well", "well"});
  CHECK(job.host(1).questions == Texts{"a", "b", "c"});
  std::vector<std::shared_ptr<TalkingJob::Asked>> many;
  for (int i = 0; i < 20; ++i) many.push_back(job.Ask(std::to_string(i)));
  REQUIRE(many.back()->answers);
  CHECK(many.back()->answers->status().code() == StatusCode::kExhausted);
  job.Run(milliseconds(2000));
  CHECK(TextsOf(many.front()->all()) == Texts{"well", "well"});
}

TEST_CASE("questions: malformed, oversized and foreign answers are distinguished, and do no harm") {
  TalkingJob job(4);
  for (const size_t rank : {1, 2, 3}) job.ranks[rank]->receives = false;
  const auto asked = job.Ask("a", milliseconds(300));
  job.values[job.KeyOf("a/1")] = "s1 nonsense";
  job.values[job.KeyOf("a/2")] = "s1 1\n" + std::string(kAnswerBytesMax + 1, 'x');
  job.values[job.KeyOf("a/3")] = "s7 1 and what a later release adds\nanything";
  job.Run(milliseconds(400));
  const Texts texts = TextsOf(asked->all());
  CHECK(texts[1] == "its answer is unreadable");
  CHECK(texts[2] == "its answer is unreadable");
  CHECK(texts[3].find("rank 3 runs another release of Stepwatch: it uses version 7") == 0);
  CHECK(texts[3].find("all ranks of a job must run the same release") != std::string::npos);

  const auto big = job.Ask(std::string(kQuestionBytesMax + 1, 'x'));
  CHECK(big->answers->status().code() == StatusCode::kExhausted);
  job.host(0).answer = std::string(kAnswerBytesMax + 1, 'x');
  const auto mute = job.Ask("b", milliseconds(100));
  job.Run(milliseconds(200));
  CHECK(mute->all()[0].trouble == "it could not answer");
}

TEST_CASE("questions: a question of another release is answered with the version of this rank") {
  TalkingJob job(2);
  job.values[job.KeyOf("q")] = "s9 1\nin a language of its own";
  job.ranks[1]->questions->OnAnnounced(job.session, 1);
  job.Run(milliseconds(100));
  CHECK(job.host(1).questions.empty());
  CHECK(job.values.at(job.KeyOf("a/1")) == "s1 1\n");
}

TEST_CASE("questions: a config of a MiB reaches every rank") {
  TalkingJob job(2);
  const std::string config(size_t{1} << 20, '"');
  const auto asked = job.Ask(config);
  job.Run(milliseconds(200));
  CHECK(TextsOf(asked->all()) == Texts{"well", "well"});
  CHECK(job.host(1).questions == Texts{config});
}

TEST_CASE("questions: a leader that dies during one leaves no text that its successor takes for an answer") {
  TalkingJob job(3);
  job.ranks[2]->receives = false;
  const auto asked = job.Ask("a");
  job.Run(milliseconds(20));
  job.StartProcess(0);
  REQUIRE(asked->answers);
  CHECK(asked->answers->status().code() == StatusCode::kUnavailable);
  job.ranks[2]->receives = true;
  job.host(1).answer = "new";
  const auto again = job.Ask("b");
  job.Run(milliseconds(200));
  CHECK(TextsOf(again->all()) == Texts{"well", "new", "well"});
  CHECK(job.host(2).questions == Texts{"b"});
}

TEST_CASE("questions: a rank that restarts during one answers for itself") {
  TalkingJob job(2);
  job.ranks[1]->receives = false;
  const auto asked = job.Ask("a");
  job.Run(milliseconds(20));
  job.ranks[1]->receives = true;
  job.StartProcess(1);
  job.Run(milliseconds(200));
  CHECK(TextsOf(asked->all()) == Texts{"well", "well"});
}

TEST_CASE("questions: a store that vanishes is named, and the next question after it is back is answered") {
  for (const bool hangs : {true, false}) {
    TalkingJob job(2);
    (hangs ? job.hangs : job.fails) = true;
    const auto asked = job.Ask("a", milliseconds(300));
    const auto forwarded = job.Forward(1, "x", milliseconds(300));
    job.Run(milliseconds(400));
    CHECK(asked->all()[0].text_untrusted == "well");
    CHECK(asked->all()[1].trouble.find("no answer within 300 ms") == 0);
    CHECK((asked->all()[1].trouble.find("connection reset") != std::string::npos) == !hangs);
    CHECK(forwarded->reply->status().code() == StatusCode::kTimedOut);
    job.hangs = job.fails = false;
    job.Run(milliseconds(20000));
    job.InformAll();
    job.Run(milliseconds(20));
    const auto again = job.Ask("b");
    const auto next = job.Forward(1, "y");
    job.Run(milliseconds(2000));
    CHECK(TextsOf(again->all()) == Texts{"well", "well"});
    CHECK(next->text() == "y is done");
  }
}

TEST_CASE("requests: each request that a rank forwards is performed once, in turn, and answered to that rank") {
  for (const Store::Abilities& abilities : {kPolls, kListens}) {
    TalkingJob job(4, abilities);
    job.Run(milliseconds(10));
    std::vector<std::shared_ptr<TalkingJob::Forwarded>> all;
    for (int round = 0; round < 3; ++round)
      for (size_t rank = 1; rank < 4; ++rank)
        all.push_back(job.Forward(rank, std::to_string(rank) + "." + std::to_string(round), milliseconds(5000)));
    job.Run(milliseconds(5000));
    for (size_t i = 0; i < all.size(); ++i) {
      const std::string name = std::to_string(1 + i % 3) + "." + std::to_string(i / 3);
      CHECK(all[i]->text() == name + " is done");
      CHECK(all[i]->count == 1);
    }
    CHECK(job.host(0).performed.size() == 9);
    // The store keeps marks alone.
    job.Run(milliseconds(1000));
    for (const auto& [key, value] : job.values) CHECK(value.size() < 40);
  }
}

TEST_CASE("requests: one that the store was slow to confirm is performed once") {
  TalkingJob job(2);
  job.Run(milliseconds(10));
  job.loses_answer_of = {job.KeyOf("f/1")};
  const auto forwarded = job.Forward(1, "x", milliseconds(20000));
  job.Run(milliseconds(20000));
  CHECK(forwarded->text() == "x is done");
  CHECK(job.host(0).performed.size() == 1);
}

TEST_CASE("requests: a late one is withdrawn, and a reply after that is not taken for that of another") {
  TalkingJob job(2);
  job.Run(milliseconds(10));
  job.host(0).holds_replies = true;
  const auto late = job.Forward(1, "slow", milliseconds(500));
  job.Run(milliseconds(600));
  CHECK(late->reply->status().code() == StatusCode::kTimedOut);
  CHECK(late->reply->status().message().find("whether it performs the request is not known") != std::string::npos);
  const auto next = job.Forward(1, "next", milliseconds(2000));
  job.Run(milliseconds(600));
  REQUIRE(job.host(0).replies.size() == 2);
  job.host(0).replies[0]("of the slow one");
  job.Run(milliseconds(50));
  CHECK_FALSE(next->reply);
  job.host(0).replies[1]("of the next");
  job.host(0).replies[1]("twice");
  job.Run(milliseconds(200));
  CHECK(next->text() == "of the next");
  CHECK(late->count == 1);
}

TEST_CASE("requests: the death of a leader that performs one is reported, and its successor performs the next") {
  TalkingJob job(2);
  job.Run(milliseconds(10));
  job.host(0).holds_replies = true;
  const auto lost = job.Forward(1, "x", milliseconds(5000));
  job.Run(milliseconds(400));
  REQUIRE(job.host(0).performed.size() == 1);
  job.host(0).holds_replies = false;
  job.StartProcess(0);
  job.Run(milliseconds(10));
  CHECK(lost->reply->status().message().find("rank 0 has restarted") == 0);
  const auto next = job.Forward(1, "y");
  job.Run(milliseconds(600));
  CHECK(next->text() == "y is done");
}

TEST_CASE("requests: before the first message of rank 0 none can be forwarded") {
  TalkingJob job(2);
  const auto forwarded = job.Forward(1, "x", milliseconds(0));
  CHECK(forwarded->reply->status().message() == "no message of rank 0 has arrived yet");
}

TEST_CASE("requests: an urgent one goes before those that wait, however many") {
  TalkingJob job(2);
  job.Run(milliseconds(10));
  std::vector<std::shared_ptr<TalkingJob::Forwarded>> many;
  for (int i = 0; i < 12; ++i) many.push_back(job.Forward(1, std::to_string(i), milliseconds(20000)));
  job.Run(milliseconds(2));
  const auto urgent = job.Forward(1, "stop", milliseconds(20000), /*is_urgent=*/true);
  job.Run(milliseconds(20000));
  CHECK(urgent->text() == "stop is done");
  CHECK(many[7]->text() == "7 is done");
  const auto& performed = job.host(0).performed;
  REQUIRE(performed.size() == 9);
  CHECK((performed[0].second == "stop" || performed[1].second == "stop"));
}

TEST_CASE("requests: too many at once, too large ones and invalid ones are refused") {
  TalkingJob job(3);
  job.Run(milliseconds(10));
  std::vector<std::shared_ptr<TalkingJob::Forwarded>> many;
  for (int i = 0; i < 12; ++i) many.push_back(job.Forward(1, "x", milliseconds(20000)));
  CHECK(many.back()->reply->status().code() == StatusCode::kExhausted);
  CHECK(job.Forward(1, std::string(kQuestionBytesMax + 1, 'x'))->reply->status().code() == StatusCode::kExhausted);
  job.Run(milliseconds(20000));
  CHECK(many.front()->text() == "x is done");
  // The store may contain nonsense of any writer.
  const size_t performed = job.host(0).performed.size();
  for (int i = 0; i < 6; ++i) {
    const Texts nonsense = {"",
                            "s1 -1 ab 1\nx",
                            "s1 9 ab 1\nx",
                            "s1 1 zz 1\nx",
                            "s1 1 ab 0\nx",
                            "s1 1 ab 1\n" + std::string(kQuestionBytesMax + 1, 'x')};
    job.values.emplace(job.KeyOf("f/" + std::to_string(9 + i)), nonsense[static_cast<size_t>(i)]);
  }
  job.Run(milliseconds(3000));
  CHECK(job.host(0).performed.size() == performed);
  const auto next = job.Forward(2, "y", milliseconds(5000));
  job.Run(milliseconds(5000));
  CHECK(next->text() == "y is done");
  // A reply that does not fit into the store.
  job.host(0).holds_replies = true;
  const auto large = job.Forward(1, "large", milliseconds(5000));
  job.Run(milliseconds(1000));
  job.host(0).replies.back()(std::string(kReplyBytesMax + 1, 'x'));
  job.Run(milliseconds(1000));
  CHECK(large->reply->status().code() == StatusCode::kExhausted);
}

TEST_CASE("requests: a rank of another release is refused with one sentence") {
  TalkingJob job(2);
  job.Run(milliseconds(10));
  job.values[job.KeyOf("f/1")] = "s3 1 ab 1\nin a language of its own";
  job.Run(milliseconds(600));
  CHECK(job.host(0).performed.empty());
  CHECK(job.values.at(job.KeyOf("g/1")) == "s1 1 ab 1\n");
  const auto forwarded = job.Forward(1, "x");
  job.Run(milliseconds(300));
  job.values[job.KeyOf("g/1")] = "s4 1 a2002 1\nyes";
  job.Run(milliseconds(200));
  CHECK(
      (forwarded->text() == "x is done" || forwarded->text().find("rank 0 runs another release") != std::string::npos));
}

TEST_CASE("questions and requests: each is answered once, and performed at most once, with any fault of the store",
          "[slow]") {
  for (unsigned seed = 0; seed < testing::Rounds(60U); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    TalkingJob job(3, seed % 2 == 0 ? kPolls : kListens);
    std::vector<std::shared_ptr<TalkingJob::Asked>> asked;
    std::vector<std::shared_ptr<TalkingJob::Forwarded>> forwarded;
    for (int i = 0; i < 60; ++i) {
      switch (random() % 8) {
        case 0: asked.push_back(job.Ask("q" + std::to_string(i), milliseconds(200))); break;
        case 1:
        case 2: forwarded.push_back(job.Forward(1 + random() % 2, "r" + std::to_string(i), milliseconds(800))); break;
        case 3: job.fails = random() % 2 == 0; break;
        case 4: job.hangs = random() % 3 == 0; break;
        case 5: job.loses_answer_of = {job.KeyOf("f/" + std::to_string(1 + random() % 20)), job.KeyOf("q")}; break;
        case 6: job.StartProcess(static_cast<int>(random() % 3)); break;
        default: break;
      }
      job.Run(milliseconds(random() % 300));
      job.InformAll();
    }
    job.hangs = job.fails = false;
    job.loses_answer_of.clear();
    job.Run(milliseconds(30000));
    for (const auto& each : asked) CHECK(each->answers);
    for (const auto& each : forwarded) CHECK(each->count == 1);
    std::set<std::string> once;
    for (const auto& [rank, request] : job.host(0).performed) CHECK(once.insert(request).second);
    job.InformAll();
    job.Run(milliseconds(20));
    const auto last = job.Ask("last");
    const auto next = job.Forward(2, "last", milliseconds(3000));
    job.Run(milliseconds(4000));
    CHECK(TextsOf(last->all()) == Texts{"well", "well", "well"});
    CHECK(next->text() == "last is done");
  }
}

}  // namespace
}  // namespace stepwatch::ask
