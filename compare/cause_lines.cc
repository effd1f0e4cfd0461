#include "compare/cause_lines.h"

#include <fmt/format.h>

#include "compare/job_text.h"
#include "compare/text.h"
#include "core/key.h"

namespace tdump::compare {
namespace {

std::string DbText(double db) { return fmt::format("{:.1f}", db); }

}  // namespace

std::string MissingText(const MissingWork& work, uint64_t step) {
  const char other = work.side == 'A' ? 'B' : 'A';
  std::string text =
      work.is_micro_batch()
          ? fmt::format("step {} has {} in A and {} in B: {} only in {}, the first {}", step,
                        Plural(work.micro_batches_a, "micro-batch"), work.micro_batches_b,
                        Plural(work.records, "record"), work.side, Printable(ToText(work.key)))
          : fmt::format("{} does not run it: its records are only in {}, the first {}", other,
                        work.side, Printable(ToText(work.key)));
  if (!work.follows.empty()) text += fmt::format("; what differs next is {}", work.follows);
  return text;
}

void AddUpdateLines(const UpdateFault& fault, std::vector<std::string>* lines) {
  lines->push_back(fmt::format(
      "in {} of {} of step {} the gradients, as recorded, agree{}, and {}: look between backward "
      "and the optimizer's step: the all-reduce of gradients, clipping, the loss scale",
      CountText(fault.parted), Plural(fault.parameters, "parameter"), fault.step,
      fault.of_weights ? " bit for bit" : "",
      fault.of_weights ? "the parameter after it does not" : "what the optimizer keeps does not"));
  const bool of_all = fault.ranks.empty() || fault.ranks.front() == kAllRanks;
  const std::string where = of_all ? "" : " on " + RanksText(fault.ranks);
  if (!fault.apart.empty())
    lines->push_back(fmt::format(
        "{}{} far off{} ({} dB), the others are not ({} dB at the median{}): what these have in "
        "common follows, as by the norm that clips all",
        Printable(fault.apart),
        fault.more_apart > 0 ? fmt::format(" and {} more are", CountText(fault.more_apart)) : " is",
        where, DbText(fault.apart_db), DbText(fault.median_db),
        fault.others.empty() ? ""
                             : fmt::format("; {} dB on {}, where none is", DbText(fault.others_db),
                                           RanksText(fault.others))));
  else if (!fault.others.empty())
    lines->push_back(fmt::format("the error is larger{} ({} dB at the median) than on {} ({} dB)",
                                 where, DbText(fault.median_db), RanksText(fault.others),
                                 DbText(fault.others_db)));
}

}  // namespace tdump::compare
