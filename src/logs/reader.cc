#include "src/logs/reader.h"

#include <utility>

namespace stepwatch::logs {

class Reader::State {
 public:
  explicit State(const Recogniser& recogniser, ReaderOptions options) : recogniser(recogniser), options(options) {}
  const Recogniser& recogniser;
  const ReaderOptions options;
};

Reader::Reader(const Recogniser& recogniser, ReaderOptions options)
    : state_(std::make_unique<State>(recogniser, options)) {}
Reader::~Reader() = default;

void Reader::Add(const LineIn& line, std::vector<Record>* records) {
  Record record;
  record.id = line.id;
  record.source = line.source;
  record.host = line.host;
  record.rank = line.rank;
  record.observed_t = line.observed_t;
  record.message = line.text.substr(0, kMessageBytesMax);
  state_->recogniser.Recognise(&record);
  records->push_back(std::move(record));
}

void Reader::Flush(double /*now*/, std::vector<Record>* /*records*/) {}

}  // namespace stepwatch::logs
