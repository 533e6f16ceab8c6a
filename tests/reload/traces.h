// The worked traces of the monitor's start and stop rules, as data: played on the pure machine, on the real loop with
// real files, and (in Python) on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stepwatch::testing {

// One version of config.json, as far as steps are concerned.
struct Wanted {
  bool dynamic_on = true;
  int64_t collect_times = 2;
  int64_t step_interval = 1;
  int64_t start_step = 0;
  bool gradients = true;    // else weights, so that files show which version collected a step
  const char* broken = "";  // not empty: the whole text of a file that is refused
};

struct Edit {
  int64_t during_step = 0;
  Wanted wanted;
};

struct Collected {
  int64_t step = 0;
  bool gradients = true;

  bool operator==(const Collected&) const = default;
};

struct Trace {
  const char* name;
  bool dynamic = true;
  int64_t first_step = 0;
  Wanted initial;
  std::vector<Edit> edits = {};
  int64_t steps = 10;
  std::vector<Collected> collected = {};
  // The file at the end: what was saved last with dynamic_on false now, or byte for byte what was saved last.
  bool written_back = false;
};

inline std::vector<Trace> Traces() {
  const Wanted off{.dynamic_on = false};
  const Wanted two{};
  const Wanted five{.collect_times = 5};
  const Wanted zero{.collect_times = 0};
  const Wanted weights{.gradients = false};
  const Wanted forever{.dynamic_on = false, .collect_times = 100000000};
  const Wanted not_json{.broken = "{\"dynamic_on\": tru"};
  const Wanted wrong_type{.broken = "{\"dynamic_on\": true, \"wg_distribution\": \"yes\"}"};
  const Wanted not_object{.broken = "[true]"};
  return {
      {.name = "static, start_step 1, interval 2",
       .dynamic = false,
       .initial = {.dynamic_on = false, .step_interval = 2, .start_step = 1},
       .collected = {{1}, {3}}},
      {.name = "static defaults collect every step",
       .dynamic = false,
       .initial = forever,
       .steps = 4,
       .collected = {{0}, {1}, {2}, {3}}},
      {.name = "static, the first step is not a multiple of the interval",
       .dynamic = false,
       .first_step = 1003,
       .initial = {.step_interval = 2},
       .collected = {{1004}, {1006}}},
      {.name = "static, collect_times 0 collects nothing", .dynamic = false, .initial = zero},
      {.name = "static mode takes no edits",
       .dynamic = false,
       .initial = two,
       .edits = {{4, weights}},
       .collected = {{0}, {1}}},

      {.name = "dynamic, dynamic_on false: nothing", .initial = off},
      {.name = "dynamic, true from the beginning: from step 1",
       .initial = two,
       .collected = {{1}, {2}},
       .written_back = true},
      {.name = "dynamic, true from the beginning of a resumed run",
       .first_step = 500,
       .initial = two,
       .collected = {{501}, {502}},
       .written_back = true},
      {.name = "an edit during step 2 holds from step 3",
       .initial = off,
       .edits = {{2, two}},
       .collected = {{3}, {4}},
       .written_back = true},
      {.name = "another config during a collection: the count begins anew with the next step",
       .initial = five,
       .edits = {{3, weights}},
       .collected = {{1}, {2}, {3}, {4, false}, {5, false}},
       .written_back = true},
      {.name = "collect_times 0 during a collection ends it at the next boundary, and is written back",
       .initial = five,
       .edits = {{3, zero}},
       .collected = {{1}, {2}, {3}},
       .written_back = true},
      {.name = "dynamic_on false during a collection ends it at the next boundary",
       .initial = five,
       .edits = {{3, {.dynamic_on = false, .collect_times = 5}}},
       .collected = {{1}, {2}, {3}}},
      {.name = "a finished window, then true again",
       .initial = two,
       .edits = {{5, {.gradients = false}}},
       .collected = {{1}, {2}, {6, false}, {7, false}},
       .written_back = true},
      {.name = "the true text of a finished window saved again is a new edit",
       .initial = two,
       .edits = {{5, two}},
       .collected = {{1}, {2}, {6}, {7}},
       .written_back = true},
      {.name = "dynamic, interval 3: start_step of the file is replaced",
       .initial = {.step_interval = 3, .start_step = 100},
       .collected = {{1}, {4}},
       .written_back = true},
      {.name = "dynamic, interval 3, edited in the pause between two collected steps",
       .initial = {.step_interval = 3},
       .edits = {{2, {.step_interval = 2, .gradients = false}}},
       .collected = {{1}, {3, false}, {5, false}},
       .written_back = true},
      {.name = "dynamic, collect_times 0 from the beginning: nothing, and written back",
       .initial = zero,
       .written_back = true},

      {.name = "a text that is not JSON keeps the running plan; the next good edit holds",
       .initial = five,
       .edits = {{2, not_json}, {4, weights}},
       .collected = {{1}, {2}, {3}, {4}, {5, false}, {6, false}},
       .written_back = true},
      {.name = "a value of a wrong type keeps the running plan",
       .initial = two,
       .edits = {{1, wrong_type}},
       .collected = {{1}, {2}}},
      {.name = "a text that is no object keeps the running plan",
       .initial = two,
       .edits = {{1, not_object}},
       .collected = {{1}, {2}}},
      {.name = "a refused edit while nothing runs, then a good one",
       .initial = off,
       .edits = {{1, not_json}, {3, two}},
       .collected = {{4}, {5}},
       .written_back = true},
      {.name = "a broken file at the start, then a good one",
       .initial = not_json,
       .edits = {{2, two}},
       .collected = {{3}, {4}},
       .written_back = true},
      {.name = "going back to the running text after a refused edit disturbs nothing",
       .initial = five,
       .edits = {{2, not_json}, {3, five}},
       .collected = {{1}, {2}, {3}, {4}, {5}},
       .written_back = true},
      {.name = "the running text saved again is no edit",
       .initial = five,
       .edits = {{2, five}, {3, five}},
       .collected = {{1}, {2}, {3}, {4}, {5}},
       .written_back = true},
      {.name = "two edits in one step: the later one holds",
       .initial = five,
       .edits = {{2, {.collect_times = 3}}, {2, weights}},
       .collected = {{1}, {2}, {3, false}, {4, false}},
       .written_back = true},
      {.name = "an edit taken back in the same step begins a new window of the old text",
       .initial = {.collect_times = 3},
       .edits = {{2, weights}, {2, {.collect_times = 3}}},
       .collected = {{1}, {2}, {3}, {4}, {5}},
       .written_back = true},
      {.name = "off and on again in one step begins a new window",
       .initial = {.collect_times = 3},
       .edits = {{2, off}, {2, {.collect_times = 3}}},
       .collected = {{1}, {2}, {3}, {4}, {5}},
       .written_back = true},
      {.name = "on and off again in one step: nothing", .initial = off, .edits = {{2, two}, {2, off}}},
      {.name = "an edit during the last collected step begins its own window",
       .initial = two,
       .edits = {{2, weights}},
       .collected = {{1}, {2}, {3, false}, {4, false}},
       .written_back = true},
      {.name = "off during the last collected step stays as it was saved",
       .initial = two,
       .edits = {{2, {.dynamic_on = false, .collect_times = 7}}},
       .collected = {{1}, {2}}},
      {.name = "an edit in each step: each version collects one step",
       .initial = {.collect_times = 9},
       .edits = {{1, {.collect_times = 8, .gradients = false}},
                 {2, {.collect_times = 7}},
                 {3, {.collect_times = 6, .gradients = false}},
                 {4, {.collect_times = 1}}},
       .collected = {{1}, {2, false}, {3}, {4, false}, {5}},
       .written_back = true},
  };
}

}  // namespace stepwatch::testing
