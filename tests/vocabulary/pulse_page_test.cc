#include "src/vocabulary/pulse_page.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace stepwatch::vocabulary {
namespace {

std::unique_ptr<PulsePage> MadePage() {
  auto page = std::make_unique<PulsePage>();
  page->magic.store(kPulseMagic);
  page->layout.store(kPulseLayout);
  return page;
}

void SetWords(PulsePage* page, const std::string& text) {
  std::memcpy(page->words, text.data(), text.size());
  page->words_bytes.store(static_cast<uint32_t>(text.size()));
}

TEST_CASE("phases and modules come back from their words as they went in") {
  for (int phase = 0; phase < kPhaseCount; ++phase)
    for (const int64_t expires : {int64_t{0}, int64_t{1}, int64_t{1} << 50}) {
      const PhaseMark mark = UnpackPhase(PackPhase({static_cast<Phase>(phase), expires}));
      CHECK(mark.phase == static_cast<Phase>(phase));
      CHECK(mark.expires_ms == expires);
    }
  for (const uint32_t module : {0U, 7U, kPulseModulesMax - 1})
    for (const int32_t micro : {0, 3, kMicroBatchesMax - 1})
      for (const bool entered : {false, true})
        for (const uint32_t generation : {0U, 5U, kGenerationMask}) {
          const auto found = UnpackModule(PackModule({module, entered, micro, generation}));
          REQUIRE(found.has_value());
          CHECK(found->module == module);
          CHECK(found->micro_batch == micro);
          CHECK(found->entered == entered);
          CHECK(found->generation == generation);
        }
  CHECK_FALSE(UnpackModule(0).has_value());
  // A text that does not fit is cut, and leaves its neighbours alone.
  CHECK(UnpackModule(PackModule({kPulseModulesMax + 9, true, -4, 2}))->generation == 2);
  CHECK(UnpackPhase(~uint64_t{0}).phase == Phase::kPaused);
}

TEST_CASE("a page is refused if it is malformed, of another layout, too short, or left in the middle of a write") {
  const auto page = MadePage();
  CHECK(ReadPulse(*page, sizeof(PulsePage)).ok());
  CHECK(ReadPulse(*page, sizeof(PulsePage) - 1).status().code() == StatusCode::kInvalid);
  page->sequence.store(5);
  CHECK(ReadPulse(*page, sizeof(PulsePage)).status().code() == StatusCode::kUnavailable);
  page->sequence.store(6);
  page->layout.store(kPulseLayout + 1);
  CHECK(ReadPulse(*page, sizeof(PulsePage)).status().code() == StatusCode::kUnsupported);
  page->magic.store(0);
  CHECK(ReadPulse(*page, sizeof(PulsePage)).status().code() == StatusCode::kInvalid);
}

TEST_CASE("whatever a page holds is read without harm") {
  const auto page = MadePage();
  page->end.store(99);
  page->phase.store(~uint64_t{0});
  page->module.store(~uint64_t{0});
  page->run_id.Write(std::string(200, '\xff'));
  page->words_bytes.store(~uint32_t{0});
  std::memset(page->words, 'x', sizeof page->words);
  const auto read = ReadPulse(*page, sizeof(PulsePage));
  REQUIRE(read.ok());
  CHECK(read.value().end == PulseEnd::kRuns);
  CHECK(read.value().run_id.find('\xff') == std::string::npos);
  CHECK(ReadLastWords(*page).empty());
}

TEST_CASE("last words are read line by line, and what is no line of them is passed over") {
  const auto page = MadePage();
  SetWords(page.get(), "3 {\"a\":1}\nno number\n\n7\n12 {\"b\":2}\n99 half");
  const std::vector<LastWord> words = ReadLastWords(*page);
  REQUIRE(words.size() == 2);
  CHECK(words[0].number == 3);
  CHECK(words[0].line == "{\"a\":1}");
  CHECK(words[1].number == 12);
  CHECK(words[1].line == "{\"b\":2}");
}

TEST_CASE("names of modules come back, those with a zero byte cut, and as many as fit") {
  const std::vector<std::string> names = {"0:", "0:fc", std::string("0:a\0b", 5), "1:layers.3.attn"};
  CHECK(ReadPulseNames(PulseNames(names)) == std::vector<std::string>{"0:", "0:fc", "0:a", "1:layers.3.attn"});
  CHECK(PulseNames(std::vector<std::string>(100, std::string(100000, 'n'))).size() <= kPulseNamesBytesMax);
  CHECK(ReadPulseNames("without an end").empty());
}

}  // namespace
}  // namespace stepwatch::vocabulary
