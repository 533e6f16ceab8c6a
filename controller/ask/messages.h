// Messages between the ranks beside the agreement: a question of the leader to all, their answers, a request that a
// rank forwards to the leader, and its reply. All texts are untrusted.
//
// The first line of a message is the same in every version, which distinguishes a rank of another release from a silent
// one. The rest is read only if the version is our own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "controller/agree/messages.h"

namespace stepwatch::ask {

using agree::Incarnation;

inline constexpr int kMessageVersion = 1;
// Size of one text: a config of 1 MiB with its fields. A store accepts values of 2 MiB.
inline constexpr size_t kQuestionBytesMax = (size_t{1} << 20) + (size_t{64} << 10);
inline constexpr size_t kAnswerBytesMax = size_t{16} << 10;  // one for each rank
inline constexpr size_t kReplyBytesMax = (size_t{3} << 20) / 2;

struct Question {
  int version = kMessageVersion;
  int64_t number = 0;  // from 1, assigned by the leader
  std::string text;
};

struct AnswerToQuestion {
  int version = kMessageVersion;
  int64_t number = 0;
  std::string text;
};

// The origin of a forwarded request. Each process numbers its requests anew.
struct ForwardId {
  int rank = 0;
  Incarnation incarnation;
  int64_t serial = 0;

  bool operator==(const ForwardId& other) const = default;
};

struct ForwardedRequest {
  int version = kMessageVersion;
  ForwardId id;
  std::string text;
};

struct ForwardReply {
  int version = kMessageVersion;
  ForwardId id;
  std::string text;
};

std::string Encode(const Question& question);
std::string Encode(const AnswerToQuestion& answer);
std::string Encode(const ForwardedRequest& request);
std::string Encode(const ForwardReply& reply);
std::optional<Question> QuestionFrom(std::string_view text_untrusted);
std::optional<AnswerToQuestion> AnswerFrom(std::string_view text_untrusted);
std::optional<ForwardedRequest> RequestFrom(std::string_view text_untrusted);
std::optional<ForwardReply> ReplyFrom(std::string_view text_untrusted);

// "rank 3 runs another release of Stepwatch ...": a sentence without its full stop.
std::string IncompatibleText(int rank, int version);

}  // namespace stepwatch::ask
