#include "tools/text_export.h"

#include <fmt/format.h>
#include <unistd.h>

#include "core/text.h"
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

std::string PartOf(const std::string& path) { return fmt::format("{}.{}.part", path, ::getpid()); }

// Closes and renames, or removes what cannot be finished.
Status Finish(Status status, WritableFile* file, const std::string& part, const std::string& path) {
  Env* env = Env::Posix();
  if (status.ok()) status = file->Close();
  if (status.ok()) status = env->Rename(part, path);
  if (!status.ok()) (void)env->Remove(part);
  return status;
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

TextExport::~TextExport() {
  if (single_ == nullptr) return;
  single_.reset();
  (void)Env::Posix()->Remove(single_part_);
}

Status TextExport::Open() {
  if (path_ == "-") return {};
  Env* env = Env::Posix();
  const auto there = env->Stat(path_);
  is_directory_ = path_.ends_with('/') || (there.ok() && there->is_directory);
  if (is_directory_) {
    names_ = "file\tstep\trank\tkey\n";
    return env->MakeDirs(path_, 0777);
  }
  single_part_ = PartOf(path_);
  TDUMP_ASSIGN_OR_RETURN(single_, env->CreateExclusive(single_part_, 0666));
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
    return Write(pass, record, [&](std::string_view text) { return Append(single_.get(), text); });
  }
  Env* env = Env::Posix();
  const std::string key = ToText(record.key);
  const std::string name = fmt::format(
      "step{}_rank{}_{}", pass.place->global_step, pass.process->identity.rank,
      PortableFileName(key, fmt::format("_r{}p{}.txt", record.id, pass.place->process)));
  const std::string path = JoinPath(path_, name), part = PartOf(path);
  TDUMP_ASSIGN_OR_RETURN(const auto file, env->CreateExclusive(part, 0666));
  Status status =
      Write(pass, record, [&](std::string_view text) { return Append(file.get(), text); });
  TDUMP_RETURN_IF_ERROR(Finish(std::move(status), file.get(), part, path));
  names_ += fmt::format("{}\t{}\t{}\t{}\n", name, pass.place->global_step,
                        pass.process->identity.rank, Quoted(key));
  return {};
}

Status TextExport::Close() {
  if (path_ == "-") return {};
  if (is_directory_)
    return WriteFileAtomically(Env::Posix(), JoinPath(path_, "names.tsv"), names_, 0666);
  const auto file = std::move(single_);
  return Finish({}, file.get(), single_part_, path_);
}

}  // namespace tdump::tools
