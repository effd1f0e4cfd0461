#include "tools/text_export.h"

#include <fmt/format.h>

#include <utility>

#include "core/text.h"
#include "core/whole_file.h"
#include "io/value_parts.h"
#include "tools/options.h"
#include "tools/record_text.h"
#include "tools/value_stream.h"

namespace tdump::tools {
namespace {

constexpr size_t kBufferBytes = 256 * 1024;

Status Append(WritableFile* file, std::string_view text) {
  return file->Append(std::as_bytes(std::span(text.data(), text.size())));
}

// What a killed export left in a directory.
bool IsPartOfRecord(std::string_view file) {
  const size_t end = file.rfind(".txt.");
  return end != std::string_view::npos && IsPartOf(file, file.substr(0, end + 4));
}

std::string Head(const OpenPass& pass, const io::Record& record) {
  std::string text =
      fmt::format("# tdump text 1\n# key {}\n# step {}, rank {}, dtype {}, shape {}, kept {}",
                  Quoted(ToText(record.key)), pass.place->global_step, pass.process->identity.rank,
                  Printable(record.dtype.view()), ShapeText(record), KeptText(record));
  if (record.hash) text += ", hash " + HashText(*record.hash);
  return text + "\n";
}

}  // namespace

Status TextExport::Open() {
  if (path_ == "-") return {};
  Env* env = Env::Posix();
  const auto there = env->Stat(path_);
  is_directory_ = path_.ends_with('/') || (there.ok() && there->is_directory);
  if (is_directory_) {
    names_ = "file\tstep\trank\tkey\n";
    TDUMP_RETURN_IF_ERROR(env->MakeDirs(path_, 0777));
    RemoveLeftParts(env, path_, IsPartOfRecord);
    return {};
  }
  TDUMP_ASSIGN_OR_RETURN(single_, ReportFile::Create(path_));
  return {};
}

Status TextExport::Write(const OpenPass& pass, const io::Record& record,
                         const std::function<Status(std::string_view)>& put) {
  if (!record.payload && record.slice) {
    TDUMP_RETURN_IF_ERROR(
        put(fmt::format("# slice {} of {}\n", SliceText(*record.slice), ShapeText(record))));
    return Write(pass, io::SliceAsRecord(record), put);
  }
  std::string buffer = Head(pass, record);
  ++records_;
  if (!record.payload) {
    ++without_values_;
    return put(buffer + "# no values\n");
  }
  ValueStream values(pass.reader.get(), &record);
  const uint64_t row =
      record.sizes.empty() ? 1 : std::max<uint64_t>(static_cast<uint64_t>(record.sizes.back()), 1);
  for (uint64_t i = 1; !values.done(); ++i) {
    TDUMP_ASSIGN_OR_RETURN(const auto unit, values.Next());
    buffer += values.Text(unit);
    buffer += i % row == 0 ? '\n' : ' ';
    if (buffer.size() < kBufferBytes) continue;
    TDUMP_RETURN_IF_ERROR(put(buffer));
    buffer.clear();
  }
  return put(buffer);
}

Status TextExport::Add(const OpenPass& pass, const io::Record& record) {
  if (path_ == "-") {
    return Write(pass, record, [](std::string_view text) {
      Print(std::string(text));
      return Status::Ok();
    });
  }
  if (!is_directory_) {
    return Write(pass, record, [&](std::string_view text) {
      single_->Write(text);
      return single_->ok() ? Status::Ok() : single_->Commit();
    });
  }
  const std::string key = ToText(record.key);
  const std::string name = fmt::format(
      "step{}_rank{}_{}", pass.place->global_step, pass.process->identity.rank,
      PortableFileName(key, fmt::format("_r{}p{}.txt", record.id, pass.place->process)));
  TDUMP_RETURN_IF_ERROR(
      WriteWholeFile(Env::Posix(), JoinPath(path_, name), 0666, [&](WritableFile* file) {
        return Write(pass, record, [&](std::string_view text) { return Append(file, text); });
      }));
  names_ += fmt::format("{}\t{}\t{}\t{}\n", name, pass.place->global_step,
                        pass.process->identity.rank, Quoted(key));
  return {};
}

Status TextExport::Close() {
  if (path_ == "-") return {};
  if (is_directory_)
    return WriteFileAtomically(Env::Posix(), JoinPath(path_, "names.tsv"), names_, 0666);
  return std::exchange(single_, nullptr)->Commit();
}

}  // namespace tdump::tools
