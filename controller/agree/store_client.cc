#include "controller/agree/store_client.h"

#include <algorithm>
#include <map>
#include <utility>

#include "controller/agree/messages.h"

namespace stepwatch::agree {
namespace {

using std::chrono::milliseconds;

// Pause after a failed request; doubled up to kPauseAfterFaultMax.
constexpr milliseconds kPauseAfterFault{20};
constexpr milliseconds kPauseAfterFaultMax{1000};
// The store counts as recovered after this time without a failure.
constexpr milliseconds kWellAfter{2000};

std::string KeyOfRank(const std::string& key, size_t rank) {
  return key + "/" + std::to_string(rank);
}

}  // namespace

StoreClient::StoreClient(std::shared_ptr<Store> store, milliseconds answer_time, Dependencies dependencies)
    : store_(std::move(store)), answer_time_(answer_time), dependencies_(std::move(dependencies)) {}

void StoreClient::Get(Request* request, const std::string& key, Handler handler, milliseconds pause) {
  Ask(
      request, [&](Store::Done done) { store_->Get(key, std::move(done)); }, std::move(handler), pause);
}

void StoreClient::Set(Request* request, const std::string& key, const std::string& value, Handler handler) {
  Ask(request, [&](Store::Done done) { store_->Set(key, value, std::move(done)); }, std::move(handler), {});
}

void StoreClient::SetOnce(Request* request, const std::string& key, const std::string& value, Handler handler) {
  Ask(request, [&](Store::Done done) { store_->SetOnce(key, value, std::move(done)); }, std::move(handler), {});
}

void StoreClient::SetAll(Request* request, const std::vector<std::string>& keys, const std::string& value,
                         Handler handler) {
  Ask(request, [&](Store::Done done) { store_->SetAll(keys, value, std::move(done)); }, std::move(handler), {});
}

void StoreClient::Listen(Request* request, const std::string& key, const std::function<void()>& handler) {
  if (request->is_out || dependencies_.now() < request->not_before) return;
  Send(
      request, [&](Store::Done done) { store_->Listen(key, std::move(done)); },
      [this, request, handler](const Store::Answer& answer) {
        if (!answer.ok()) return PauseAfterFault(request);
        request->pause_after_fault = milliseconds(0);
        handler();
      });
}

void StoreClient::Enter(Request* request, const std::string& key, int rank, const std::string& word, Handler handler) {
  if (!store_->abilities().appends) return Set(request, KeyOfRank(key, static_cast<size_t>(rank)), word, handler);
  Ask(request, [&](Store::Done done) { store_->Append(key, WordLine(rank, word), std::move(done)); },
      std::move(handler), {});
}

void StoreClient::ReadWords(std::vector<Request>* requests, const std::string& key, const std::vector<bool>& is_known,
                            const OnWord& on_word, milliseconds pause) {
  if (store_->abilities().appends)
    return Get(
        &requests->front(), key,
        [is_known, on_word](const std::optional<std::string>& text) {
          const std::map<int, std::string> words = WordsFrom(text.value_or(""));
          for (size_t rank = 0; rank < is_known.size(); ++rank) {
            if (is_known[rank]) continue;
            const auto found = words.find(static_cast<int>(rank));
            on_word(static_cast<int>(rank),
                    found == words.end() ? std::nullopt : std::optional<std::string>(found->second));
          }
        },
        pause);
  for (size_t rank = 0; rank < is_known.size(); ++rank) {
    if (is_known[rank]) continue;
    Get(
        &(*requests)[rank], KeyOfRank(key, rank),
        [rank, on_word](const std::optional<std::string>& word) { on_word(static_cast<int>(rank), word); }, pause);
  }
}

void StoreClient::Hurry(Request* request) {
  request->hurries = request->is_out;
  if (!request->is_out) request->not_before = std::min(request->not_before, dependencies_.now());
}

void StoreClient::Restart(Request* request) {
  *request = Request{.serial = request->serial + 1, .asked = {}, .not_before = dependencies_.now()};
}

void StoreClient::Ask(Request* request, const Issue& issue, const Handler& handler, milliseconds pause) {
  const Time now = dependencies_.now();
  if (request->is_out && now - request->asked < answer_time_) return;
  if (request->is_out) {  // no answer in time counts as a failure
    request->is_out = false;
    Take(request, Status(StatusCode::kTimedOut, "no answer within " + std::to_string(answer_time_.count()) + " ms"),
         handler);
  }
  if (now < request->not_before) return;
  request->not_before = now + pause;
  Send(request, issue, [this, request, epoch = epoch_, handler](const Store::Answer& answer) {
    if (epoch == epoch_) Take(request, answer, handler);
  });
}

void StoreClient::Send(Request* request, const Issue& issue, OnAnswer on_answer) {
  request->is_out = true;
  request->asked = dependencies_.now();
  issue([this, post = dependencies_.post, owner = std::weak_ptr<void>(dependencies_.owner()), request,
         serial = ++request->serial, on_answer = std::move(on_answer)](const Store::Answer& answer) {
    post([this, owner, request, serial, on_answer, answer] {
      const std::shared_ptr<void> alive = owner.lock();
      if (!alive || !dependencies_.owner() || !request->is_out || request->serial != serial) return;
      request->is_out = false;
      if (std::exchange(request->hurries, false)) request->not_before = dependencies_.now();
      on_answer(answer);
      dependencies_.on_answer();
    });
  });
}

void StoreClient::Take(Request* request, const Store::Answer& answer, const Handler& handler) {
  if (answer.ok()) {
    request->pause_after_fault = milliseconds(0);
    if (fails_ && dependencies_.now() - last_fault_ > kWellAfter) {
      fails_ = false;
      dependencies_.on_change(Status());
    }
    return handler(answer.value());
  }
  PauseAfterFault(request);
  last_fault_ = dependencies_.now();
  if (!std::exchange(fails_, true)) dependencies_.on_change(answer.status());
}

void StoreClient::PauseAfterFault(Request* request) {
  request->pause_after_fault = std::clamp(request->pause_after_fault * 2, kPauseAfterFault, kPauseAfterFaultMax);
  request->not_before = dependencies_.now() + request->pause_after_fault;
}

}  // namespace stepwatch::agree
