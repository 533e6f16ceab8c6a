#include "operations/store/batch.h"

#include <iterator>
#include <utility>

namespace stepwatch::operations {
namespace {

template <class List>
void MoveTo(List* list, List&& more) {
  list->insert(list->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

bool Batch::empty() const {
  return lines.empty() && runs.empty() && changes.empty() && silences.empty() && silences_removed.empty() &&
         series.empty() && processes.empty() && deliveries.empty() && !starts_deliveries_over;
}

void Batch::Add(StoredLine line) {
  line_bytes_ += line.json.size();
  lines.push_back(std::move(line));
}

void Batch::Append(Batch later) {
  line_bytes_ += later.line_bytes_;
  MoveTo(&lines, std::move(later.lines));
  for (auto& [id, run] : later.runs) runs.insert_or_assign(id, std::move(run));
  for (auto& [key, process] : later.processes) processes.insert_or_assign(key, std::move(process));
  if (later.starts_deliveries_over) deliveries.clear();
  starts_deliveries_over = starts_deliveries_over || later.starts_deliveries_over;
  for (auto& [key, text] : later.deliveries) deliveries.insert_or_assign(key, std::move(text));
  MoveTo(&changes, std::move(later.changes));
  MoveTo(&silences, std::move(later.silences));
  MoveTo(&silences_removed, std::move(later.silences_removed));
  MoveTo(&series, std::move(later.series));
}

int64_t Batch::DropLines(size_t bytes_max) {
  int64_t dropped = 0;
  while (line_bytes_ > bytes_max && !lines.empty()) {
    line_bytes_ -= lines.front().json.size();
    lines.pop_front();
    ++dropped;
  }
  return dropped;
}

int64_t Batch::DropChanges(size_t count_max) {
  if (changes.size() <= count_max) return 0;
  const auto dropped = static_cast<std::ptrdiff_t>(changes.size() - count_max);
  changes.erase(changes.begin(), changes.begin() + dropped);
  return dropped;
}

void Batch::DropDeliveries(size_t count_max) {
  if (deliveries.size() > count_max) deliveries.clear();
}

int64_t Batch::FoldChanges(size_t count_max) {
  if (changes.size() <= count_max) return 0;
  std::map<std::string, size_t> left;
  for (const StoredChange& change : changes) ++left[change.incident.id];
  std::deque<StoredChange> kept;
  const size_t all = changes.size();
  size_t to_drop = all - count_max;
  for (StoredChange& change : changes) {
    size_t& later = left[change.incident.id];
    if (to_drop > 0 && later > 1) {
      --later;
      --to_drop;
    } else {
      kept.push_back(std::move(change));
    }
  }
  changes = std::move(kept);
  return static_cast<int64_t>(all - changes.size());
}

}  // namespace stepwatch::operations
