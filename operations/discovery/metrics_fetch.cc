#include "operations/discovery/metrics_fetch.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "operations/discovery/job_connection.h"
#include "src/http/client.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kPageBytesMax = size_t{2} << 20;

struct Gathering {
  JobPages all;
  size_t bytes = 0;  // of them
  size_t open = 0;
  std::function<void(const JobPages&)> done;

  void Finish() {
    if (open == 0) done(all);
  }
};

}  // namespace

void FetchPages(boost::asio::io_context& loop, const std::vector<MetricsQuestion>& questions, const std::string& path,
                std::chrono::milliseconds time, const base::ByteRoom& room,
                std::function<void(const JobPages& pages)> done) {
  const auto gathering = std::make_shared<Gathering>();
  gathering->done = std::move(done);
  gathering->open = questions.size();
  if (questions.empty()) return boost::asio::post(loop, [gathering] { gathering->Finish(); });
  for (const MetricsQuestion& question : questions) {
    const auto connection = std::make_shared<JobConnection>(loop, question.server.path, question.server.uid, room);
    // The running handlers keep the connection until it has answered.
    connection->Get(path, time, kPageBytesMax, [gathering, labels = question.labels](const Result<http::Reply>& reply) {
      const bool is_page = reply.ok() && reply.value().status == 200;
      if (is_page && gathering->bytes + reply.value().body.size() <= kExpositionBytesMax) {
        gathering->bytes += reply.value().body.size();
        gathering->all.pages.push_back({labels, reply.value().body});
      } else {
        ++gathering->all.missing;
      }
      --gathering->open;
      gathering->Finish();
    });
  }
}

}  // namespace stepwatch::operations
