#include "controller/reload/config_writer.h"

#include <chrono>
#include <iterator>
#include <utility>

#include "controller/writeback/leftover_file.h"
#include "src/base/text.h"

namespace stepwatch::reload {
namespace {

using Clock = writeback::DisplacedFiles::Clock;

constexpr std::chrono::seconds kLookAfterFault{1};

writeback::WriteBackResult Edited(const std::string& path) {
  writeback::WriteBackResult result;
  result.outcome = writeback::WriteBackOutcome::kEdited;
  result.message = base::Printable(path, 200) + " was edited meanwhile; the edit stands";
  return result;
}

}  // namespace

ConfigWriter::ConfigWriter(boost::asio::io_context& loop, journal::FileQueue* file_work, base::FileSystem* files,
                           std::string config_path, std::function<void(const Finding&)> report)
    : file_work_(file_work),
      files_(files),
      config_path_(std::move(config_path)),
      report_(std::move(report)),
      timer_(loop) {}

ConfigWriter::Looked ConfigWriter::LookAt(Displaced* displaced) {
  std::vector<Finding> findings = displaced->files.Look(Clock::now());
  return {std::move(findings), displaced->files.look_at(), displaced->files.size()};
}

writeback::WriteBackResult ConfigWriter::MakeNow(Displaced* displaced, const std::string& path, const Change& change,
                                                 base::FileSystem& files) {
  writeback::WriteBackResult result = change();
  displaced->files.AddOurs(result.sha256);
  if (result.displaced) displaced->files.Add(std::move(*result.displaced));
  result.displaced.reset();
  if (result.outcome == writeback::WriteBackOutcome::kImpossible)
    displaced->files.Add(writeback::FindDisplaced(path, files));
  return result;
}

void ConfigWriter::AdoptLeftovers() {
  Look([path = config_path_, files = files_](Displaced* displaced) {
    std::vector<Finding> kept = writeback::TidyLeftovers(path, *files);
    displaced->files.Add(writeback::FindDisplaced(path, *files));
    Looked looked = LookAt(displaced);
    looked.findings.insert(looked.findings.end(), std::make_move_iterator(kept.begin()),
                           std::make_move_iterator(kept.end()));
    return looked;
  });
}

void ConfigWriter::LookNow() {
  Look(LookAt);
}

// A file that stays in place keeps its name, and the next process finds it.
void ConfigWriter::Stop() {
  is_stopped_ = true;
  timer_.Cancel();
  Look([](Displaced* displaced) { return Looked{displaced->files.LastLook(Clock::now()), std::nullopt, 0}; });
}

void ConfigWriter::WriteBack(const std::string& base_sha256, std::function<bool()> is_unchanged, Then then) {
  Make(
      [path = config_path_, base_sha256, is_unchanged = std::move(is_unchanged), files = files_] {
        return is_unchanged() ? writeback::SetDynamicOn(path, base_sha256, false, *files) : Edited(path);
      },
      [this, then = std::move(then)](const Status& fault, const writeback::WriteBackResult& result) {
        --write_backs_;
        then(fault, result);
      });
  ++write_backs_;
}

void ConfigWriter::Make(Change change, Then then) {
  struct Outcome {
    writeback::WriteBackResult result;
    Looked before;
    Looked after;
  };
  const auto outcome = std::make_shared<Outcome>();
  file_work_->Do(
      [outcome, displaced = displaced_, path = config_path_, change = std::move(change), files = files_] {
        outcome->before = LookAt(displaced.get());  // a late edit is put into the file before the comparison
        outcome->result = MakeNow(displaced.get(), path, change, *files);
        outcome->after = LookAt(displaced.get());
      },
      [this, outcome, then = std::move(then)](const Status& fault) {
        OnLooked(outcome->before);
        OnLooked(outcome->after);
        if (!fault.ok()) AdoptLeftovers();  // it may have displaced a file by then
        then(fault, outcome->result);
      });
}

// A look that throws does not end the looks.
void ConfigWriter::Look(std::function<Looked(Displaced*)> look) noexcept {
  try {
    const auto looked = std::make_shared<Looked>();
    file_work_->Do([looked, displaced = displaced_, look = std::move(look)] { *looked = look(displaced.get()); },
                   [this, looked](const Status& fault) {
                     if (!fault.ok()) return LookAgainAt(Clock::now() + kLookAfterFault);
                     OnLooked(*looked);
                   });
  } catch (...) {
    LookAgainAt(Clock::now() + kLookAfterFault);
  }
}

void ConfigWriter::OnLooked(const Looked& looked) noexcept {
  displaced_count_ = looked.count;
  LookAgainAt(looked.look_at);
  for (const Finding& finding : looked.findings) {
    try {
      report_(finding);
    } catch (...) {  // no memory for the report: the file holds the edit, or its name identifies it
    }
  }
}

void ConfigWriter::LookAgainAt(std::optional<Clock::time_point> time) noexcept try {
  if (!time || is_stopped_) return;
  timer_.At(*time, [this] { LookNow(); });
} catch (...) {  // no memory: the next write-back or Refresh looks again
}

}  // namespace stepwatch::reload
