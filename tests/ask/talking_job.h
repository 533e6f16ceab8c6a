// Ranks that ask each other through a store, on a clock that jumps from one wish to be woken to the next.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/ask/questions.h"
#include "tests/agree/jumping_clock.h"
#include "tests/catch.h"

namespace stepwatch::ask {

using agree::JumpingClock;
using agree::ListenedValues;
using std::chrono::milliseconds;

class TalkingJob {
  JumpingClock clock_;
  ListenedValues listened_{&clock_};

 public:
  // Answers as the test wants.
  class Host final : public QuestionHost {
   public:
    std::string Answer(const std::string& question) override {
      questions.push_back(question);
      return answer;
    }
    void Perform(int rank, const std::string& request, Reply reply) override {
      performed.emplace_back(rank, request);
      replies.push_back(std::move(reply));
      if (!holds_replies) replies.back()(request + " is done");
    }
    std::string answer = "well";
    std::vector<std::string> questions;
    std::vector<std::pair<int, std::string>> performed;
    std::vector<Reply> replies;
    bool holds_replies = false;
  };

  struct Rank {
    Host host;
    std::shared_ptr<Questions> questions;
    int64_t wake = 0;
    bool receives = true;  // new questions
  };

  explicit TalkingJob(int count, Store::Abilities abilities = {}) : world(count), abilities_(abilities) {
    for (int rank = 0; rank < count; ++rank) {
      ranks.push_back(std::make_unique<Rank>());
      StartProcess(rank);
    }
  }
  ~TalkingJob() {
    for (const auto& rank : ranks) rank->questions->Stop();
  }

  // The process before it, if there was one, is dead.
  void StartProcess(int rank) {
    Rank& process = *ranks.at(static_cast<size_t>(rank));
    if (process.questions) process.questions->Stop();
    Questions::Settings settings;
    settings.prefix = "job";
    settings.rank = rank;
    settings.world_size = world;
    settings.incarnation = "a" + std::to_string(1000 * (rank + 1) + ++processes_);
    if (rank == 0) session = settings.incarnation, asked_ = 0;
    Questions::Dependencies around;
    around.now = [this] { return clock_.now(); };
    around.post = [this](std::function<void()> work) { clock_.At(clock_.now(), std::move(work)); };
    around.wake_at = [this, &process](Time time) {
      process.wake = clock_.serial() + 1;
      clock_.At(time, [&process, wake = process.wake, questions = std::weak_ptr(process.questions)] {
        const auto alive = questions.lock();
        if (alive && process.wake == wake) alive->Advance();
      });
    };
    around.announce = [this](int64_t number) {
      asked_ = number;
      InformAll();
    };
    process.questions = std::make_shared<Questions>(settings, std::make_shared<OneStore>(this), &process.host, around);
    process.questions->Start();
    InformAll();
  }
  // As the coordinators do: gives all ranks the session, and the number of the newest question.
  void InformAll() {
    for (const auto& rank : ranks) {
      if (!rank->questions || rank->questions->is_leader() || !rank->receives) continue;
      clock_.After(milliseconds(1), [this, &rank = *rank] {
        if (rank.receives) rank.questions->OnAnnounced(session, asked_);
      });
    }
  }

  void Run(milliseconds time) { clock_.Run(time); }
  Host& host(size_t rank) { return ranks.at(rank)->host; }

  // Rank 0 puts its question; nullopt: there is no result yet.
  struct Asked {
    std::optional<Result<std::vector<RankAnswer>>> answers;
    const std::vector<RankAnswer>& all() const { return answers.value().value(); }
  };
  std::shared_ptr<Asked> Ask(const std::string& text, milliseconds time = milliseconds(1000)) {
    auto asked = std::make_shared<Asked>();
    ranks[0]->questions->Ask(text, time, [asked](const auto& answers) { asked->answers = answers; });
    return asked;
  }
  struct Forwarded {
    std::optional<Result<std::string>> reply;
    int count = 0;  // of replies
    std::string text() const {
      if (!reply) return "nothing";
      return reply->ok() ? reply->value() : reply->status().ToString();
    }
  };
  std::shared_ptr<Forwarded> Forward(size_t rank, const std::string& text, milliseconds time = milliseconds(1000),
                                     bool is_urgent = false) {
    auto forwarded = std::make_shared<Forwarded>();
    const auto then = [forwarded](const auto& reply) {
      forwarded->reply = reply;
      ++forwarded->count;
    };
    ranks[rank]->questions->Forward(text, time, then, is_urgent);
    return forwarded;
  }
  std::string KeyOf(const std::string& rest) const { return "job/" + session + "/" + rest; }
  int64_t TakeRequests() { return std::exchange(requests_, 0); }

  const int world;
  std::vector<std::unique_ptr<Rank>> ranks;
  std::string session;
  std::map<std::string, std::string>& values = listened_.values;
  bool hangs = false;  // the store answers nothing any more
  bool fails = false;
  // Requests that the store performs and does not answer.
  std::set<std::string> loses_answer_of;  // keys, once each

 private:
  class OneStore final : public Store {
   public:
    explicit OneStore(TalkingJob* job) : job_(job) {}
    void Set(const std::string& key, const std::string& value, Done done) override {
      Reply(key, std::move(done), [&] { job_->listened_.Put(key, value); });
    }
    void Get(const std::string& key, Done done) override {
      Reply(key, std::move(done), [] {});
    }
    void SetOnce(const std::string& key, const std::string& value, Done done) override {
      Reply(key, std::move(done), [&] { job_->values.emplace(key, value); });
    }
    Abilities abilities() const override { return job_->abilities_; }
    void Listen(const std::string& key, Done done) override {
      ++job_->requests_;
      job_->listened_.Listen(key, std::move(done));
    }

   private:
    template <class Write>
    void Reply(const std::string& key, Done done, const Write& write) {
      ++job_->requests_;
      if (job_->hangs) return;
      if (job_->fails)
        return job_->clock_.After(milliseconds(1),
                                  [done] { done(Status(StatusCode::kUnavailable, "connection reset")); });
      write();
      if (job_->loses_answer_of.erase(key) != 0) return;
      const auto value = job_->listened_.Find(key);
      job_->clock_.After(milliseconds(1), [done = std::move(done), value] { done(value); });
    }
    TalkingJob* const job_;
  };

  const Store::Abilities abilities_;
  int64_t requests_ = 0, asked_ = 0;
  int processes_ = 0;
};

}  // namespace stepwatch::ask
