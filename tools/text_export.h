// Exact text of records: every value reads back as the same bits (docs/guide.md, "Text export").
//
//   # tdump text 1
//   # key "encoder.layer.0.dense@output#0"     JSON strings
//   # step 0, rank 2, dtype float32, shape [4, 384], kept meta+hash+payload, hash 0f...
//   0.5 -1.25 nan ...                          one line for each row of the last dimension
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/env.h"
#include "core/status.h"
#include "tools/record_filter.h"
#include "tools/report_file.h"

namespace tdump::tools {

// Where exported text goes.
//   "-"                 standard output
//   a directory, or a   one file a record, "step0_rank2_NAME.txt" with NAME made portable (legal
//   path ending in '/'  and distinct on every file system), and names.tsv: file, step, rank, key
//   else                one file with all records
// Files appear by rename and are never half there: what was not closed is removed. Not thread-safe.
class TextExport {
 public:
  explicit TextExport(std::string path) : path_(std::move(path)) {}

  Status Open();
  // A record without values is written with its head only. Error: damaged, or cannot be written.
  Status Add(const OpenPass& pass, const io::Record& record);
  Status Close();

  uint64_t records() const { return records_; }
  uint64_t without_values() const { return without_values_; }
  // Where the values are, for people.
  const std::string& path() const { return path_; }

 private:
  Status Write(const OpenPass& pass, const io::Record& record,
               const std::function<Status(std::string_view)>& put);

  std::string path_;
  bool is_directory_ = false;
  std::unique_ptr<ReportFile> single_;
  std::string names_;
  uint64_t records_ = 0, without_values_ = 0;
};

}  // namespace tdump::tools
