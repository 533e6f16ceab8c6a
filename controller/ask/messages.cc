#include "controller/ask/messages.h"

#include <utility>

#include "controller/agree/head_reader.h"

namespace stepwatch::ask {
namespace {

using agree::HeadReader;

constexpr int kVersionMax = 1000000;

std::string Head(int version) {
  return "s" + std::to_string(version);
}

std::string IdText(const ForwardId& id) {
  return std::to_string(id.rank) + " " + id.incarnation + " " + std::to_string(id.serial);
}

int VersionFrom(HeadReader* reader) {
  const std::string_view word = reader->Word();
  reader->Need(word.starts_with('s'));
  HeadReader digits(word.empty() ? word : word.substr(1));
  const int version = digits.Number<int>();
  reader->Need(digits.good() && version > 0 && version <= kVersionMax);
  return version;
}

ForwardId IdFrom(HeadReader* reader) {
  ForwardId id;
  id.rank = reader->Number<int>();
  id.incarnation = reader->Word();
  id.serial = reader->Number<int64_t>();
  reader->Need(id.rank >= 0 && agree::IsHex(id.incarnation) && id.serial > 0);
  return id;
}

// The rest of a message, which has a format of its own in each version.
std::string TextFrom(HeadReader* reader, int version, size_t bytes_max) {
  if (version != kMessageVersion) return "";
  std::string text = reader->Rest();
  reader->Need(text.size() <= bytes_max);
  return text;
}

template <class Message>
std::optional<Message> IfGood(const HeadReader& reader, Message message) {
  return reader.good() ? std::optional<Message>(std::move(message)) : std::nullopt;
}

template <class Message>
std::optional<Message> NumberedFrom(std::string_view text_untrusted, size_t bytes_max) {
  HeadReader reader(text_untrusted);
  Message message;
  message.version = VersionFrom(&reader);
  message.number = reader.Number<int64_t>();
  reader.Need(message.number > 0);
  message.text = TextFrom(&reader, message.version, bytes_max);
  return IfGood(reader, std::move(message));
}

template <class Message>
std::optional<Message> SignedFrom(std::string_view text_untrusted, size_t bytes_max) {
  HeadReader reader(text_untrusted);
  Message message;
  message.version = VersionFrom(&reader);
  message.id = IdFrom(&reader);
  message.text = TextFrom(&reader, message.version, bytes_max);
  return IfGood(reader, std::move(message));
}

}  // namespace

std::string Encode(const Question& question) {
  return Head(question.version) + " " + std::to_string(question.number) + "\n" + question.text;
}

std::string Encode(const AnswerToQuestion& answer) {
  return Head(answer.version) + " " + std::to_string(answer.number) + "\n" + answer.text;
}

std::string Encode(const ForwardedRequest& request) {
  return Head(request.version) + " " + IdText(request.id) + "\n" + request.text;
}

std::string Encode(const ForwardReply& reply) {
  return Head(reply.version) + " " + IdText(reply.id) + "\n" + reply.text;
}

std::optional<Question> QuestionFrom(std::string_view text_untrusted) {
  return NumberedFrom<Question>(text_untrusted, kQuestionBytesMax);
}

std::optional<AnswerToQuestion> AnswerFrom(std::string_view text_untrusted) {
  return NumberedFrom<AnswerToQuestion>(text_untrusted, kAnswerBytesMax);
}

std::optional<ForwardedRequest> RequestFrom(std::string_view text_untrusted) {
  return SignedFrom<ForwardedRequest>(text_untrusted, kQuestionBytesMax);
}

std::optional<ForwardReply> ReplyFrom(std::string_view text_untrusted) {
  return SignedFrom<ForwardReply>(text_untrusted, kReplyBytesMax);
}

std::string IncompatibleText(int rank, int version) {
  return "rank " + std::to_string(rank) + " runs another release of Stepwatch: it uses version " +
         std::to_string(version) + " of the messages between ranks, this rank version " +
         std::to_string(kMessageVersion) + "; all ranks of a job must run the same release";
}

}  // namespace stepwatch::ask
