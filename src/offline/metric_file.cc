#include "src/offline/metric_file.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <tuple>

#include "src/base/file.h"
#include "src/base/text.h"
#include "src/config/text_index.h"

namespace stepwatch::offline {
namespace {

// Columns that are not statistics.
constexpr std::string_view kPlaceColumns[] = {"vpp_stage", "name", "step", "micro_step", "shape", "dtype", "plan_id"};

template <class Number>
bool ParseWhole(std::string_view text, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// Parses "12" of "12-…"; moves `text` past it.
bool TakeStep(std::string_view* text, int64_t* step) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *step);
  if (error != std::errc() || text->empty() || !std::isdigit(static_cast<unsigned char>(text->front()))) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

bool ParseValue(std::string_view cell, double* value) {
  if (cell.empty() || cell == "nan" || cell == "None") {
    *value = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  if (cell == "True" || cell == "False") {
    *value = cell == "True" ? 1 : 0;
    return true;
  }
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), *value);
  if (end != cell.data() + cell.size()) return false;
  // Beyond the range of a double, which files of Stepwatch never contain: the sign and the exponent determine the
  // result.
  if (error == std::errc::result_out_of_range)
    *value = std::strtod(std::string(cell).c_str(), nullptr);
  else if (error != std::errc())
    return false;
  return true;
}

bool IsUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = static_cast<signed char>(text[at]) >= 0 ? 1 : config::Utf8CharacterBytes(text, at);
    if (bytes == 0) return false;
    at += bytes;
  }
  return true;
}

// "_p2" or "_p2_3", of a file created after an edit of the columns.
bool IsPlanSuffix(std::string_view text) {
  if (text.substr(0, 2) != "_p") return false;
  text.remove_prefix(2);
  int64_t number = 0;
  if (!TakeStep(&text, &number)) return false;
  if (text.empty()) return true;
  text.remove_prefix(1);
  return ParseWhole(text, &number);
}

// "_s2", of a file after a rotation; moves `text` past it.
bool TakeSegment(std::string_view* text, int64_t* segment) {
  if (text->substr(0, 2) != "_s") return true;
  text->remove_prefix(2);
  return TakeStep(text, segment);
}

}  // namespace

std::optional<MetricFileName> ParseMetricFileName(std::string_view name, std::span<const std::string> kinds) {
  if (name.size() < 4 || name.substr(name.size() - 4) != ".csv") return std::nullopt;
  name.remove_suffix(4);
  for (const std::string& kind : kinds) {
    if (name.substr(0, kind.size()) != kind || name.size() <= kind.size() || name[kind.size()] != '_') continue;
    std::string_view rest = name.substr(kind.size() + 1);
    MetricFileName parsed{kind, 0, 0, 1};
    if (!TakeStep(&rest, &parsed.first_step) || rest.empty() || rest.front() != '-') continue;
    rest.remove_prefix(1);
    if (!TakeStep(&rest, &parsed.last_step) || !TakeSegment(&rest, &parsed.segment)) continue;
    if (rest.empty() || IsPlanSuffix(rest)) return parsed;
  }
  return std::nullopt;
}

Result<MetricFileList> ListMetricFiles(const std::string& directory, std::span<const std::string> kinds,
                                       base::FileSystem& files) {
  MetricFileList list;
  const Result<std::vector<std::string>> names = base::ListDirectory(directory, files);
  if (!names.ok()) return names.status();
  for (const std::string& name : names.value()) {
    const std::string path = base::JoinPath(directory, name);
    auto parsed = ParseMetricFileName(name, kinds);
    if (parsed) {
      struct stat about = {};
      const bool is_known = files.Stat(path.c_str(), &about) == 0;
      list.files.push_back({std::move(*parsed), path, is_known ? static_cast<uint64_t>(about.st_size) : 0});
    } else if (const size_t part = name.find("_part_"); part != std::string::npos) {
      if (ParseMetricFileName(name.substr(0, part) + ".csv", kinds))
        list.notes.push_back(path + " has no header and was left out");
    }
  }
  std::sort(list.files.begin(), list.files.end(), [](const MetricFileEntry& a, const MetricFileEntry& b) {
    return std::tie(a.name.first_step, a.name.segment, a.path) < std::tie(b.name.first_step, b.name.segment, b.path);
  });
  return list;
}

Result<MetricFile> MetricFile::Open(const std::string& path, std::span<const std::string> wanted) {
  Result<CsvReader> reader = CsvReader::Open(path);
  if (!reader.ok()) return reader.status();
  MetricFile file(std::move(reader).value());
  Status header = file.ReadHeader(wanted);
  if (!header.ok()) return header;
  return file;
}

Status MetricFile::ReadHeader(std::span<const std::string> wanted) {
  const Result<bool> got = reader_.Next(&cells_);
  if (!got.ok()) return got.status();
  if (!got.value()) return Status();  // just created, or empty: no rows
  column_count_ = cells_.size();
  const auto column = [this](std::string_view name) {
    return static_cast<int>(std::find(cells_.begin(), cells_.end(), name) - cells_.begin());
  };
  const auto is_there = [this](int at) { return at < static_cast<int>(cells_.size()); };
  for (const auto& [name, to] : {std::pair<std::string_view, size_t*>{"vpp_stage", &vpp_stage_column_},
                                 {"name", &name_column_},
                                 {"step", &step_column_}}) {
    if (!is_there(column(name)))
      return Status(StatusCode::kInvalid, reader_.path() + ", line 1: the header has no column \"" + std::string(name) +
                                              "\"; expected vpp_stage,name,step,…");
    *to = static_cast<size_t>(column(name));
  }
  if (is_there(column("micro_step"))) micro_step_column_ = column("micro_step");
  std::vector<std::string> all;
  for (std::string_view cell : cells_)
    if (std::find(std::begin(kPlaceColumns), std::end(kPlaceColumns), cell) == std::end(kPlaceColumns))
      all.emplace_back(cell);
  for (const std::string& stat : wanted.empty() ? std::span<const std::string>(all) : wanted) {
    if (!is_there(column(stat))) continue;
    stats_.push_back(stat);
    stat_columns_.push_back(static_cast<size_t>(column(stat)));
  }
  return Status();
}

Result<bool> MetricFile::Next(MetricRow* row) {
  for (;;) {
    Result<bool> got = reader_.Next(&cells_);
    if (!got.ok() || !got.value()) return got;
    const std::string fault = Parse(row);
    if (fault.empty()) {
      ++rows_;
      return true;
    }
    if (rows_skipped_++ == 0) first_skipped_ = "line " + std::to_string(reader_.line()) + ": " + fault;
  }
}

std::string MetricFile::Parse(MetricRow* row) const {
  if (cells_.size() != column_count_)
    return std::to_string(cells_.size()) + " cells, the header has " + std::to_string(column_count_);
  const auto not_a_number = [this](std::string_view what, size_t column) {
    return std::string(what) + " \"" + base::Printable(cells_[column]) + "\" is not a number";
  };
  if (!ParseWhole(cells_[vpp_stage_column_], &row->vpp_stage)) return not_a_number("vpp_stage", vpp_stage_column_);
  if (!ParseWhole(cells_[step_column_], &row->step)) return not_a_number("step", step_column_);
  row->micro_step = 0;
  if (micro_step_column_ >= 0) {
    const auto column = static_cast<size_t>(micro_step_column_);
    if (!ParseWhole(cells_[column], &row->micro_step)) return not_a_number("micro_step", column);
    if (row->micro_step < 0) return "micro_step is negative";
  }
  row->name = cells_[name_column_];
  // TensorBoard rejects the whole file, and SQLite's readers the text.
  if (!IsUtf8(row->name)) return "the name is not UTF-8";
  row->values.resize(stats_.size());
  for (size_t i = 0; i < stats_.size(); ++i)
    if (!ParseValue(cells_[stat_columns_[i]], &row->values[i])) return not_a_number(stats_[i], stat_columns_[i]);
  return "";
}

std::string MetricFile::Note() const {
  std::string note;
  if (rows_skipped_ > 0)
    note = std::to_string(rows_skipped_) + " malformed rows were left out, the first is " + first_skipped_;
  if (reader_.ends_inside_row())
    note += (note.empty() ? "" : "; ") + std::string("it ends in the middle of line ") +
            std::to_string(reader_.line()) + ", which was left out";
  return note.empty() ? "" : reader_.path() + ": " + note;
}

}  // namespace stepwatch::offline
