#include "tools/record_filter.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/printed_name.h"

namespace tdump::tools {

bool RecordFilter::Takes(const io::Record& record) const {
  if (!roles.empty() && std::find(roles.begin(), roles.end(), record.key.role) == roles.end())
    return false;
  if (arg && !arg(record.key.arg)) return false;
  if (!name.empty() && !io::NameMatchesPrinted(name, record)) return false;
  return !select || select(PlainName(record.key.root, record.key.path, record.key.op));
}

Result<std::vector<Role>> ParseRoles(const std::string& text) {
  std::vector<Role> roles;
  for (size_t at = 0; at <= text.size() && !text.empty();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, comma - at);
    Role role;
    if (!ParseRole(word, &role)) {
      return InvalidArgument(fmt::format(
          "--role: '{}' is no role; expected input, output, grad_input, grad_output, param, "
          "param_grad, state, before or after, several with commas",
          word));
    }
    roles.push_back(role);
    at = comma + 1;
  }
  return roles;
}

std::vector<const io::IndexedPass*> SelectPasses(const LoadedRun& run, const RecordFilter& filter) {
  std::vector<const io::IndexedPass*> by_step, by_job;
  for (const io::IndexedPass& place : run.index.passes) {
    const io::ProcessEntry& process = run.store->processes()[place.process];
    const auto rank = static_cast<uint64_t>(process.identity.rank);
    if (run.ref.rank && process.identity.rank != *run.ref.rank) continue;
    if (filter.ranks && !filter.ranks->Contains(rank, static_cast<uint64_t>(run.index.world)))
      continue;
    if (!filter.steps || filter.steps->Contains(place.global_step)) by_step.push_back(&place);
    const int64_t job = process.passes[place.pass].info.job_step;
    if (filter.steps && job >= 0 && filter.steps->Contains(static_cast<uint64_t>(job)))
      by_job.push_back(&place);
  }
  return by_step.empty() ? by_job : by_step;
}

Result<OpenPass> Open(const LoadedRun& run, const io::IndexedPass& place) {
  OpenPass pass;
  pass.place = &place;
  pass.process = &run.store->processes()[place.process];
  pass.entry = &pass.process->passes[place.pass];
  TDUMP_ASSIGN_OR_RETURN(pass.reader, run.store->OpenPass(*pass.process, *pass.entry));
  return pass;
}

void ForEachRecord(const LoadedRun& run, const RecordFilter& filter,
                   const std::function<bool(const OpenPass&, const io::Record&)>& visit,
                   const std::function<void(const std::string&)>& trouble) {
  bool more = true;
  for (const io::IndexedPass* place : SelectPasses(run, filter)) {
    const auto pass = Open(run, *place);
    if (!pass.ok()) {
      trouble(pass.status().message());
      continue;
    }
    const Status status = pass->reader->ForEachRecord([&](const io::Record& record) {
      more = !filter.Takes(record) || visit(*pass, record);
      return more;
    });
    if (!status.ok()) trouble(status.message());
    if (!more) return;
  }
}

}  // namespace tdump::tools
