#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "operations/delivery/escape.h"
#include "operations/delivery/redact.h"
#include "operations/delivery/transport.h"
#include "src/base/mutex.h"
#include "src/base/worker_thread.h"

namespace stepwatch::operations::delivery {
namespace {

constexpr size_t kAtOnceMax = 16;
constexpr size_t kWaitingMax = 1000;
constexpr size_t kHeaderBytesMax = 64 << 10;
constexpr int kPollMilliseconds = 500;

struct FreeEasy {
  void operator()(CURL* easy) const { ::curl_easy_cleanup(easy); }
};
struct FreeList {
  void operator()(curl_slist* list) const { ::curl_slist_free_all(list); }
};
using List = std::unique_ptr<curl_slist, FreeList>;

// "HOST:PORT" of an address, which errors may name.
std::string HostOf(std::string_view url) {
  const size_t scheme = url.find("://");
  const size_t begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  return std::string(url.substr(begin, url.find_first_of("/?#", begin) - begin));
}

bool IsLoopback(std::string_view host) {
  return host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]");
}

// One request with all that libcurl reads and writes meanwhile.
class Exchange {
 public:
  Exchange(Outgoing outgoing, std::function<void(Reply)> then)
      : outgoing_(std::move(outgoing)), then_(std::move(then)) {}

  // False: libcurl refuses the request; `Finish` then reports it.
  bool Begin() {
    easy_.reset(::curl_easy_init());
    return easy_ != nullptr && SetCommon() && (outgoing_.mail ? SetMail() : SetPost());
  }
  CURL* easy() const { return easy_.get(); }

  void Finish(CURLcode code) {
    Reply reply;
    reply.body = std::move(body_);
    long status = 0;
    ::curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    reply.status = static_cast<int>(status);
    curl_off_t pause = 0;
    if (::curl_easy_getinfo(easy_.get(), CURLINFO_RETRY_AFTER, &pause) == CURLE_OK && pause > 0)
      reply.retry_after = static_cast<double>(pause);
    // The rest of a long answer is not needed.
    if (code != CURLE_OK && !(is_cut_ && reply.status != 0))
      reply.error = error_[0] != '\0' ? error_ : ::curl_easy_strerror(code);
    Return(std::move(reply));
  }
  void Fail(const std::string& error) {
    Reply reply;
    reply.error = error;
    Return(std::move(reply));
  }

 private:
  void Return(Reply reply) {
    if (!reply.error.empty()) reply.error = fmt::format("{}: {}", HostOf(outgoing_.url), reply.error);
    reply.error = Plain(Redacted(std::move(reply.error), outgoing_.secrets), 300);
    reply.body = Redacted(std::move(reply.body), outgoing_.secrets);
    then_(std::move(reply));
  }

  template <class Value>
  bool Set(CURLoption option, Value value) {
    return ::curl_easy_setopt(easy_.get(), option, value) == CURLE_OK;
  }

  bool SetCommon() {
    const auto milliseconds = [](std::chrono::milliseconds time) { return static_cast<long>(time.count()); };
    bool is_set = Set(CURLOPT_ERRORBUFFER, error_) && Set(CURLOPT_PRIVATE, static_cast<void*>(this)) &&
                  Set(CURLOPT_URL, outgoing_.url.c_str()) && Set(CURLOPT_NOSIGNAL, 1L) &&
                  Set(CURLOPT_PROTOCOLS_STR, outgoing_.mail ? "smtp,smtps" : "http,https") &&
                  Set(CURLOPT_FOLLOWLOCATION, 0L) && Set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED)) &&
                  Set(CURLOPT_CONNECTTIMEOUT_MS, milliseconds(outgoing_.connect_time_max)) &&
                  Set(CURLOPT_TIMEOUT_MS, milliseconds(outgoing_.time_max)) && Set(CURLOPT_SSL_VERIFYPEER, 1L) &&
                  Set(CURLOPT_SSL_VERIFYHOST, 2L) && Set(CURLOPT_WRITEFUNCTION, &Exchange::Take) &&
                  Set(CURLOPT_WRITEDATA, static_cast<void*>(this));
    // A kept connection that the server closes meanwhile would make libcurl send a request twice.
    is_set =
        is_set && Set(CURLOPT_FORBID_REUSE, 1L) && Set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    // Without it the end would wait for the look-up of a name.
    is_set = is_set && Set(CURLOPT_QUICK_EXIT, 1L);
    if (IsLoopback(HostOf(outgoing_.url))) is_set = is_set && Set(CURLOPT_PROXY, "");
    if (!outgoing_.ca_file.empty()) is_set = is_set && Set(CURLOPT_CAINFO, outgoing_.ca_file.c_str());
    return is_set;
  }

  bool SetPost() {
    // No pause for "100 Continue".
    std::vector<std::string> headers = outgoing_.headers;
    headers.emplace_back("Expect:");
    headers.emplace_back("User-Agent: stepwatchd");
    return Append(headers, &list_) && Set(CURLOPT_HTTPHEADER, list_.get()) &&
           Set(CURLOPT_HEADERFUNCTION, &Exchange::TakeHeader) && Set(CURLOPT_HEADERDATA, static_cast<void*>(this)) &&
           Set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(outgoing_.body.size())) &&
           Set(CURLOPT_POSTFIELDS, outgoing_.body.data()) && Set(CURLOPT_CUSTOMREQUEST, outgoing_.method.c_str());
  }

  bool SetMail() {
    const Mail& mail = *outgoing_.mail;
    std::vector<std::string> to;
    for (const std::string& address : mail.to) to.push_back("<" + address + ">");
    const bool has_password = !outgoing_.password.empty();
    return Append(to, &list_) && Set(CURLOPT_MAIL_FROM, ("<" + mail.from + ">").c_str()) &&
           Set(CURLOPT_MAIL_RCPT, list_.get()) &&
           // One wrong address does not keep the message from the others.
           Set(CURLOPT_MAIL_RCPT_ALLLOWFAILS, 1L) && Set(CURLOPT_UPLOAD, 1L) &&
           Set(CURLOPT_READFUNCTION, &Exchange::GiveMail) && Set(CURLOPT_READDATA, static_cast<void*>(this)) &&
           Set(CURLOPT_USE_SSL, static_cast<long>(outgoing_.starttls ? CURLUSESSL_ALL : CURLUSESSL_NONE)) &&
           (!has_password ||
            (Set(CURLOPT_USERNAME, outgoing_.user.c_str()) && Set(CURLOPT_PASSWORD, outgoing_.password.c_str())));
  }

  static bool Append(const std::vector<std::string>& texts, List* list) {
    for (const std::string& text : texts) {
      curl_slist* const longer = ::curl_slist_append(list->get(), text.c_str());
      if (longer == nullptr) return false;
      list->release();
      list->reset(longer);
    }
    return true;
  }

  static size_t Take(char* bytes, size_t size, size_t count, void* self) {
    auto* const exchange = static_cast<Exchange*>(self);
    const size_t room = exchange->outgoing_.reply_bytes_max - exchange->body_.size();
    exchange->body_.append(bytes, std::min(size * count, room));
    exchange->is_cut_ = size * count > room;
    return exchange->is_cut_ ? CURL_WRITEFUNC_ERROR : size * count;
  }
  static size_t TakeHeader(char* /*bytes*/, size_t size, size_t count, void* self) {
    auto* const exchange = static_cast<Exchange*>(self);
    exchange->header_bytes_ += size * count;
    return exchange->header_bytes_ > kHeaderBytesMax ? 0 : size * count;
  }
  static size_t GiveMail(char* bytes, size_t size, size_t count, void* self) {
    auto* const exchange = static_cast<Exchange*>(self);
    const std::string& text = exchange->outgoing_.mail->text;
    const size_t length = std::min(size * count, text.size() - exchange->given_);
    std::memcpy(bytes, text.data() + exchange->given_, length);
    exchange->given_ += length;
    return length;
  }

  const Outgoing outgoing_;
  const std::function<void(Reply)> then_;
  List list_;
  std::string body_;
  size_t header_bytes_ = 0;
  size_t given_ = 0;
  bool is_cut_ = false;
  char error_[CURL_ERROR_SIZE] = {};
  std::unique_ptr<CURL, FreeEasy> easy_;  // destroyed first: it refers to the members above
};

class CurlTransport final : public Transport {
 public:
  CurlTransport() {
    // Once for the process; libcurl counts.
    ::curl_global_init(CURL_GLOBAL_DEFAULT);
    multi_ = ::curl_multi_init();
    thread_ = base::StartWorkerThread("delivery", [this] { Work(); });
  }
  ~CurlTransport() override {
    is_ending_ = true;
    ::curl_multi_wakeup(multi_);
    thread_.join();
    ::curl_multi_cleanup(multi_);
    ::curl_global_cleanup();
  }

  void Send(Outgoing outgoing, std::function<void(Reply)> then) override {
    auto exchange = std::make_unique<Exchange>(std::move(outgoing), std::move(then));
    {
      const base::MutexLock lock(&mutex_);
      waiting_.push_back(std::move(exchange));
    }
    ::curl_multi_wakeup(multi_);
  }

 private:
  void Work() {
    while (!is_ending_) {
      BeginSome();
      int running = 0;
      ::curl_multi_perform(multi_, &running);
      FinishSome();
      ::curl_multi_poll(multi_, nullptr, 0, kPollMilliseconds, nullptr);
    }
    for (auto& [easy, exchange] : running_) {
      ::curl_multi_remove_handle(multi_, easy);
      exchange->Fail("stepwatchd ends");
    }
    running_.clear();
    for (const auto& exchange : TakeWaiting(SIZE_MAX)) exchange->Fail("stepwatchd ends");
  }

  std::deque<std::unique_ptr<Exchange>> TakeWaiting(size_t count) {
    std::deque<std::unique_ptr<Exchange>> taken;
    const base::MutexLock lock(&mutex_);
    for (; taken.size() < count && !waiting_.empty(); waiting_.pop_front())
      taken.push_back(std::move(waiting_.front()));
    return taken;
  }
  // Those beyond the limit, the newest first.
  std::deque<std::unique_ptr<Exchange>> TakeBeyond() {
    std::deque<std::unique_ptr<Exchange>> taken;
    const base::MutexLock lock(&mutex_);
    for (; waiting_.size() > kWaitingMax; waiting_.pop_back()) taken.push_back(std::move(waiting_.back()));
    return taken;
  }

  void BeginSome() {
    for (auto& exchange : TakeWaiting(kAtOnceMax - running_.size())) {
      if (!exchange->Begin() || ::curl_multi_add_handle(multi_, exchange->easy()) != CURLM_OK) {
        exchange->Fail("libcurl cannot send the request");
        continue;
      }
      CURL* const easy = exchange->easy();
      running_.emplace(easy, std::move(exchange));
    }
    for (const auto& exchange : TakeBeyond()) exchange->Fail("too many requests wait");
  }

  void FinishSome() {
    int left = 0;
    while (const CURLMsg* message = ::curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      // Removing the handle ends the life of the message.
      const CURLcode code = message->data.result;
      CURL* const easy = message->easy_handle;
      ::curl_multi_remove_handle(multi_, easy);
      const auto found = running_.find(easy);
      if (found == running_.end()) continue;
      const std::unique_ptr<Exchange> exchange = std::move(found->second);
      running_.erase(found);
      exchange->Finish(code);
    }
  }

  CURLM* multi_ = nullptr;
  std::atomic<bool> is_ending_ = false;
  base::Mutex mutex_;
  std::deque<std::unique_ptr<Exchange>> waiting_ STEPWATCH_GUARDED_BY(mutex_);
  std::map<CURL*, std::unique_ptr<Exchange>> running_;  // of the thread
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Transport> MakeCurlTransport() {
  return std::make_unique<CurlTransport>();
}

}  // namespace stepwatch::operations::delivery
