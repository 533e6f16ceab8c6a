// A response of a control socket with its JSON.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "src/http/client.h"
#include "src/json/json.h"
#include "tests/catch.h"

namespace stepwatch::testing {

struct JsonReply {
  int status = 0;
  Json json;
};

// A busy machine may be slow to respond.
inline JsonReply Send(const http::Client& client, const http::ClientRequest& request) {
  const Result<http::Reply> reply = client.Ask(request, std::chrono::seconds(20));
  REQUIRE(reply.status().ToString() == "ok");
  return {reply.value().status, json::Parse(reply.value().body).value()};
}

}  // namespace stepwatch::testing
