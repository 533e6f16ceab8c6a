// The requests about messages to people, as the intake passes them on. All of it on the loop's thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/http/answers.h"
#include "src/http/handler.h"

namespace stepwatch::operations {

class Deliveries {
 public:
  virtual ~Deliveries() = default;

  // Messages by receiver: waiting, given up, sent; at most `limit` of each.
  virtual http::Answer List(size_t limit) const = 0;
  // A body of Alertmanager's webhook for a receiver. The answer is 200 once its alerts are safe in the store.
  virtual void Notify(const std::string& receiver, const std::string& body_untrusted, http::OnAnswer then) = 0;

  // The page to which a signed link in a message leads. It is open to anyone who has the link, without a token.
  struct LinkCall {
    bool acknowledges = false;       // the button of the page was pressed
    std::vector<std::string> parts;  // of the link: incident, expiry, signature
    std::string body_untrusted;
  };
  virtual bool HasLinks() const = 0;
  virtual void AnswerLink(const LinkCall& call, http::OnAnswer then) = 0;
};

}  // namespace stepwatch::operations
